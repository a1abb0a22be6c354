"""Causal ordering where things go wrong: backlogs, interrupted waits, callbacks that fail, threads."""

import threading

import pytest

from ledto.clocks import OrderingClock, StampError, VectorChannel, VectorClock, VectorStamp


def test_a_long_backlog_is_released_by_one_gap():
    """One lost message and a thousand that wait for it, newest first: no stack overflow, nothing lost, one gap named."""
    sender, receiver = OrderingClock("a"), OrderingClock("b")
    sent = [sender.send("b") for _ in range(1_500)]
    done = []
    for stamp in reversed(sent[1:-1]):
        receiver.submit(stamp, done.append)
    last = receiver.deliver(sent[-1], timeout_s=0)
    assert receiver.waiting == 0
    assert [delivery.number for delivery in done] == list(range(2, 1_500))
    assert last.gaps == ()
    assert [delivery.gaps for delivery in done if delivery.gaps] == [(("a", 0, 1),)]
    assert receiver.deliver(sent[0]).late


@pytest.mark.parametrize("wrong", [float("inf"), float("nan"), -1, "1"])
def test_a_wrong_timeout_leaves_the_message_to_be_offered_again(wrong):
    """A typing error must not turn the message into a duplicate of itself."""
    sender, receiver = OrderingClock("a"), OrderingClock("b")
    first, second = sender.send("b"), sender.send("b")
    with pytest.raises(ValueError, match="timeout_s is a number of seconds"):
        receiver.deliver(second, timeout_s=wrong)
    with pytest.raises(ValueError, match="timeout_s is a number of seconds"):
        OrderingClock("c", timeout_s=wrong)
    assert receiver.waiting == 0
    assert receiver.deliver(first).number == 1
    assert not receiver.deliver(second).duplicate


def test_an_interrupted_wait_leaves_the_message_to_be_offered_again(monkeypatch):
    """Ctrl-C while a message waits: it is not queued for a caller that is gone."""
    sender, receiver = OrderingClock("a"), OrderingClock("b")
    first, second = sender.send("b"), sender.send("b")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        receiver.deliver(second)
    assert receiver.waiting == 0
    assert receiver.deliver(first).stamp is not None
    assert not receiver.deliver(second).duplicate


def test_a_callback_that_fails_harms_no_one_else(caplog):
    """The message that releases others is delivered, and so are they; the failure is in the log."""
    sender, receiver = OrderingClock("a"), OrderingClock("b")
    stamps = [sender.send("b") for _ in range(3)]
    done = []

    def fails(_):
        raise RuntimeError("the application's own mistake")

    receiver.submit(stamps[1], fails)
    receiver.submit(stamps[2], done.append)
    assert receiver.deliver(stamps[0]).gaps == ()
    assert [delivery.number for delivery in done] == [3]
    assert "the application's own mistake" in caplog.text


def test_no_event_comes_between_those_of_a_group():
    """Two sends in one group follow each other, whatever other threads of the process stamp."""
    clock = OrderingClock("a")
    entered, tried = threading.Event(), threading.Event()

    def intrude():
        entered.wait()
        tried.set()
        clock.local()

    thread = threading.Thread(target=intrude)
    thread.start()
    with clock.grouped():
        first = clock.send("b")
        entered.set()
        tried.wait()
        second = clock.send("b")
    thread.join()
    assert second.clock["a"] == first.clock["a"] + 1


def test_a_vector_too_large_for_a_channel_is_refused_by_the_sender():
    """Not by the receiver, who could do nothing about it."""
    clock = VectorClock("a")
    clock.receive(VectorStamp({f"{i * 0x9E3779B97F4A7C15 % 2**64:016x}-{i}": 1 for i in range(60_000)}))
    with pytest.raises(StampError, match="over the limit"):
        VectorChannel(clock).send()
