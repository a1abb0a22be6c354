"""A live history is a function of its reports: by whatever steps they come, and whoever is killed on the way."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledto.events.schema import REPORTS
from ledto.history.deliver.files import agree_terms, deliver_on
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.manifest import Manifest, read_manifest
from ledto.history.store import Store
from ledto.live import LiveHistory, LiveWriter, OtherTerms, reader
from ledto.questions import History
from ledto.questions.standing import Standing
from tests.history.computations import observe_cut, past_of, relations_of, told_of
from tests.live.streams import BASE, DELTA, EPS, HOUR, MS, hard_stream, kind_stream, play, terms, told

POLICIES = ("exact", "cbd:0.5", "dapw:0.3", "physical-only:0.4", "cbd:1")
SEEDS = st.integers(0, 1 << 32)
LOSSES = st.sampled_from((0.0, 0.1, 0.4))


@settings(max_examples=15, deadline=None)
@given(SEEDS, LOSSES)
def test_a_history_is_true_however_it_was_made(seed: int, loss: float) -> None:
    """Or an engineer is told causes that were none, or not told what is missing, by a stream or by its logs in batch."""
    random = Random(seed)
    drawn, table = kind_stream(random, loss=loss)
    reported = [event for event in drawn if not event.lost]
    names = {id(event): f"{event.process}-{event.number}" for event in reported}
    past = past_of(drawn)
    truth = {names[id(event)]: {names[each] for each in past[id(event)]} for event in reported}
    lacks = {names[id(event)]: event.lacks for event in reported}
    accounts = {
        "reports": len(truth),
        "delivered": len(truth),
        "duplicate": 0,
        "quarantined": 0,
        "reasons": {},
        "missing_causes": sum(map(bool, lacks.values())),
    }

    live = play(table, iter(lambda: random.randint(1, 60), 0), terms(close_rows=random.choice([20, 70])))
    assert {name: {*causes} for name, causes in live.past.items()} == truth
    assert {row["id"]: row["missing"] or [] for row in live.events} == lacks
    assert live.ledger == accounts
    assert sorted(row["id"] for row in live.log) == sorted(truth)
    assert [row["number"] for row in live.log] == list(range(1, len(truth) + 1))

    with tempfile.TemporaryDirectory() as folder:
        run = observe_cut(Path(folder), in_milliseconds(table), [random.randint(1, 900) for _ in range(2)], EPS // MS)
        assert relations_of(run)[1] == truth
        assert {name: missing for name, (_, missing) in told_of(run).items()} == lacks
        assert History(folder).check().ledger == accounts


def in_milliseconds(table: pa.Table) -> pa.Table:
    """The same reports with times from 0 on, where they can be cut."""
    for name in ("time", "arrival"):
        times = pa.array((table[name].to_numpy() - BASE) // MS)
        table = table.set_column(table.column_names.index(name), name, times)
    return table


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.sampled_from(POLICIES), LOSSES)
def test_the_log_is_what_batch_delivers(seed: int, policy: str, loss: float) -> None:
    """Or the order that a stream engineer gets live is not the one that the papers and the batch promise."""
    random = Random(seed)
    _, table = kind_stream(random, loss=loss)
    live = play(table, iter(lambda: random.randint(1, 60), 0), terms(policies=(policy,), close_rows=40))
    assert [row["id"] for row in live.log] == batch_order(table, policy)


def batch_order(table: pa.Table, policy: str) -> list[str]:
    """Ids in the order in which a history made at once delivers them, as an observer could know it."""
    with tempfile.TemporaryDirectory() as folder:
        run = observe_cut(Path(folder), table, [], EPS)
        blocks = Blocks.joined([survey_segment(run, number) for number in range(len(run.segments))])
        agreed = agree_terms([policy], blocks, eps=EPS, delta=DELTA, as_known=True)
        found = deliver_on(agreed, run, 0, blocks).policies[agreed.options[0].name].table
        rows = run.events(0, ["id"], 0, int(run.segments.rows[0]))
        for name in ("at", "lead", "tie"):
            rows = rows.append_column(name, found[name])
        return list(rows.sort_by([(name, "ascending") for name in ("at", "lead", "tie")])["id"].to_pylist())


@settings(max_examples=15, deadline=None)
@given(SEEDS)
@example(1088)  # two copies, dated on either side of a cut
def test_no_cutting_and_no_restart_changes_anything(seed: int) -> None:
    """Late, doubled, lost and broken reports and clocks hours off included: or what is delivered depends on luck."""
    random = Random(seed)
    _, table = hard_stream(random)
    given_terms = terms(
        policies=tuple(random.sample(POLICIES, 2)),
        close_rows=random.choice([20, 60, 1000]),
        close_after=random.choice([1_000 * MS, 600_000 * MS]),
    )
    whole = play(table, [len(table) + 1], given_terms)
    cut = play(table, iter(lambda: random.randint(1, 25), 0), given_terms, restart=lambda: random.random() < 0.2)
    assert cut == whole
    ledger = whole.ledger
    assert ledger["reports"] == len(table) == ledger["delivered"] + ledger["duplicate"] + ledger["quarantined"]
    assert len(whole.log) == ledger["delivered"]
    numbered = [row["id"] for row in whole.log if row["seq"] is not None]
    assert len({*numbered}) == len(numbered)


def test_a_commit_that_is_not_finished_never_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that dies at any write leaves the version before, and the same reports then give the same history."""
    _, table = kind_stream(Random(5), events=60)
    whole = play(table, [30, 30], terms(close_rows=20))
    failing = _FailingWrites(monkeypatch)
    writes = failing.count(lambda: play(table, [30, 30], terms(close_rows=20)))
    folder = tmp_path / "history"
    for stop in range(0, writes, max(1, writes // 12)):
        at = 0
        failing.stop_after(stop)
        while at < len(table):
            try:
                with LiveWriter(str(folder), terms(close_rows=20)) as writer:
                    at = writer.positions.get("rows", 0)
                    while at < len(table):
                        part = table.slice(at, 30)
                        writer.step(part, now=part["arrival"][-1].as_py(), positions={"rows": at + len(part)})
                        at += len(part)
            except _Killed:
                failing.stop_after(None)
        failing.stop_after(None)
        with LiveWriter(str(folder)) as writer:
            writer.step(REPORTS.empty_table(), now=writer.now + 100 * HOUR)
        assert told(folder) == whole
        shutil.rmtree(folder)


class _Killed(BaseException):
    pass


class _FailingWrites:
    """Stands between the writer and its files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from ledto.history.store import Store

        self._left: int | None = None
        self.made = 0
        original = Store.writing

        def writing(store: Store, name: str) -> object:
            self.made += 1
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise _Killed
            return original(store, name)

        monkeypatch.setattr(Store, "writing", writing)

    def count(self, work: Callable[[], object]) -> int:
        before = self.made
        work()
        return self.made - before

    def stop_after(self, writes: int | None) -> None:
        self._left = writes


def test_silence_and_noise_grow_nothing(tmp_path: Path) -> None:
    """A day without reports, then a day of nothing but broken ones: or a quiet week-end fills the disk."""
    _, table = kind_stream(Random(1), events=40)
    noise = table.slice(0, 5).set_column(table.column_names.index("reason"), "reason", [["not-json: x"] * 5])
    with LiveWriter(str(tmp_path / "h"), terms(close_rows=20)) as writer:
        writer.step(table, now=table["arrival"][-1].as_py(), positions={"p": 0})
        now = writer.now
        for _ in range(200):
            now += 432_000 * MS
            writer.step(REPORTS.empty_table(), now=now, positions={"p": 1})
        quiet = (
            len(writer.closed.chain("").records),
            writer.tail.by_computation,
            len(list((tmp_path / "h" / "runs").rglob("*"))),
        )
        for _ in range(200):
            now += 432_000 * MS
            arrivals = noise.set_column(noise.column_names.index("arrival"), "arrival", [[now] * 5])
            writer.step(arrivals, now=now, positions={"p": 2})
        assert quiet[0] == len(writer.closed.chain("").records)
        assert not quiet[1]
        assert not writer.tail.by_computation
        assert len(writer._stored.files) == 0
    state = LiveHistory(tmp_path / "h").state()
    assert state is not None
    assert state.counts.delivered == 40
    assert state.counts.quarantined == 1_000


def test_a_stream_goes_on_under_its_own_terms(tmp_path: Path) -> None:
    """Other bounds would date the same reports otherwise, and nobody could tell which rule an order follows."""
    _, table = kind_stream(Random(2), events=10)
    with LiveWriter(str(tmp_path / "h"), terms()) as writer:
        writer.step(table, now=BASE, positions={})
    with pytest.raises(OtherTerms, match="began with"):
        LiveWriter(str(tmp_path / "h"), terms(eps=1))


def test_a_message_that_is_received_again_long_after_still_has_its_send(tmp_path: Path) -> None:
    """Also by a writer that begins with the history of another: or what led to the second receive is lost by a restart."""
    rows = [
        {"process": "a", "seq": 1, "time": BASE, "kind": "send", "sends": "news"},
        {"process": "b", "seq": 1, "time": BASE + MS, "kind": "receive", "receives": "news"},
        *({"process": "a", "seq": seq, "time": BASE + seq * 20 * MS, "kind": "local"} for seq in range(2, 120)),
    ]
    again = {"process": "c", "seq": 1, "time": BASE + 5_000 * MS, "kind": "receive", "receives": "news"}
    for restart in (False, True):
        folder = str(tmp_path / f"restart-{restart}")
        with LiveWriter(folder, terms(close_rows=20)) as writer:
            writer.step(_reports(rows), now=BASE + 5_000 * MS)
            assert "news" not in writer.closed.chain("").chain.sends
            if not restart:
                writer.step(_reports([again]), now=BASE + 5_000 * MS)
        if restart:
            with LiveWriter(folder) as writer:
                writer.step(_reports([again]), now=BASE + 5_000 * MS)
        answer = LiveHistory(folder).current().why("c:1")
        assert [event.id for event in answer.causes] == ["a:1"]
        assert not answer.missing


def test_a_receive_lacks_its_send_until_nothing_can_come_between(tmp_path: Path) -> None:
    """The first report need not be of the first message: who matches at once says that a later one led to the receive."""
    rows = [
        {"process": "b", "seq": 1, "time": BASE + MS, "kind": "receive", "channel_key": "a>b"},
        {"process": "a", "seq": 2, "time": BASE + 2 * MS, "kind": "send", "channel_key": "a>b"},
        {"process": "a", "seq": 1, "time": BASE, "kind": "send", "channel_key": "a>b", "arrival": BASE + DELTA},
    ]
    seen = []
    with LiveWriter(str(tmp_path / "h"), terms()) as writer:
        for part, now in ((rows[:2], BASE + 9 * MS), (rows[2:], BASE + DELTA), ([], BASE + DELTA + 2 * EPS)):
            writer.step(_reports(part), now=now)
            history = LiveHistory(tmp_path / "h").current()
            receive = next(event for event in history.order() if event.process == "b")
            holes = {row["process"]: row["first_tainted"] for row in history.run.processes.table.to_pylist()}
            seen.append((receive.missing, holes["b"]))
    lacks = ("span in channel a>b",)
    assert seen == [(lacks, 1), (lacks, 1), (("span perhaps a later message in channel a>b",), 1)]
    assert history.relation("a:1", "b:1") is Standing.BEFORE
    # Perhaps the first was lost, and the second received.
    assert history.relation("a:2", "b:1") is Standing.UNKNOWN
    assert {name: count for name, count in history.check().channels.items() if count} == {
        "matched": 1, "unmatched_sends": 1, "ambiguous": 1, "ambiguous_loss": 1
    }  # fmt: skip


def _reports(rows: list[dict[str, object]]) -> pa.Table:
    given = [{"computation": "", "arrival": row["time"], **row} for row in rows]
    return pa.Table.from_pylist(given, REPORTS)


def test_a_reader_sees_every_commit_and_reads_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscriber would wait for a commit that was made; or five looks a second would keep a core warm for nothing."""
    reads = 0

    def counting(store: Store) -> Manifest:
        nonlocal reads
        reads += 1
        return read_manifest(store)

    monkeypatch.setattr(reader, "read_manifest", counting)
    _, table = kind_stream(Random(1), loss=0.0)
    live = LiveHistory(tmp_path / "h")
    assert (live.version, live.state(), live.last_delivery()) == (0, None, 0)
    with LiveWriter(str(tmp_path / "h"), terms()) as writer:
        for number in range(3):
            rows = table.slice(10 * number, 10)
            assert writer.step(rows, now=rows["arrival"][-1].as_py())
            reads = 0
            for _ in range(5):
                assert live.version == writer.version == live.current().run.manifest.version[1]
                assert (state := live.state()) is not None
                assert state.version == writer.version
            assert reads == 1
