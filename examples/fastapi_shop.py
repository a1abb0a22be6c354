"""Thirty orders at once, one change of the configuration: ``python examples/fastapi_shop.py FOLDER``.

A FastAPI service takes orders. Then somebody takes the price away on the admin's endpoint, and the next order fails. The
change and the failure are two requests, which only share memory: the change is a possible cause, as is all that the process
did before. What is recorded of the failure is its own request alone.

The reports are files below FOLDER, one event a line.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
from fastapi import FastAPI, HTTPException

from ledto.reporting import Reporter
from ledto.reporting.asgi import ReportingMiddleware

NOBODY = "http://127.0.0.1:9"
"""No service is there, so the spool keeps all reports."""


@dataclass(frozen=True)
class Truth:
    """Events by their ids."""

    change: str
    failure: str


class Shop:
    """The service, and the ids of the two events that matter."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._price: int | None = 5
        self.change = self.failure = ""

    def app(self) -> FastAPI:
        app = FastAPI()
        app.post("/orders/{number}")(self.order)
        app.put("/admin/price")(self.set_price)
        return app

    async def order(self, number: int) -> int:
        self._reporter.report("order.checked", order=number)
        await asyncio.sleep(0)  # Other orders go on meanwhile.
        await self._reporter.gather(self._reserve(number), self._pay(number))
        self._reporter.report("order.done", order=number)
        return number

    async def set_price(self, price: int | None = None) -> None:
        self._price = price
        event = self._reporter.report("price.changed", price=price)
        self.change = "" if event is None else event.id

    async def _reserve(self, number: int) -> None:
        self._reporter.report("piece.reserved", order=number)

    async def _pay(self, number: int) -> None:
        if self._price is None:
            event = self._reporter.report("payment.failed", order=number)
            self.failure = "" if event is None else event.id
            raise HTTPException(500, "no price")
        self._reporter.report("payment.done", order=number)


async def use(shop: Shop, reporter: Reporter) -> None:
    """Place thirty orders at once, change the price, and place one more."""
    transport = httpx.ASGITransport(ReportingMiddleware(shop.app(), reporter))
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        await asyncio.gather(*(client.post(f"/orders/{number}") for number in range(30)))
        await client.put("/admin/price")
        await asyncio.create_task(client.post("/orders/30"))


def play(folder: Path) -> Truth:
    """Run the service with its clients; its reports are the files ``*/*.jsonl`` of the folder."""
    with Reporter("shop", endpoint=NOBODY, spool=folder, retry_s=(0.01, 0.1)) as reporter:
        shop = Shop(reporter)
        reporter.report("shop.opened")
        asyncio.run(use(shop, reporter))
        reporter.close(0.0)
    return Truth(shop.change, shop.failure)


if __name__ == "__main__":
    truth = play(Path(sys.argv[1]))
    print(f"{truth.failure} failed because of {truth.change}, which was another request")  # noqa: T201
