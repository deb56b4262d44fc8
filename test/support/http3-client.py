"""Sends the requests of each connection of a plan over HTTP/3, one after another, and prints their outcomes."""

import asyncio
import json
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.outcomes = {}

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            self.settle(event.stream_id, f"reset {event.error_code}")
        if isinstance(event, ConnectionTerminated):
            for stream in self.outcomes:
                self.settle(stream, f"closed {event.error_code}")
        for received in self.http.handle_event(event):
            if isinstance(received, HeadersReceived):
                status = dict(received.headers).get(b":status", b"0")
                if not status.startswith(b"1"):
                    self.settle(received.stream_id, int(status))

    def settle(self, stream, outcome):
        waiting = self.outcomes.get(stream)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)

    async def send(self, request, authority, patience):
        headers = {":method": "GET", ":scheme": "https", ":authority": authority, ":path": "/"}
        headers.update(request["headers"])
        body = request.get("body", [])
        trailers = request.get("trailers")
        stream = self._quic.get_next_available_stream_id()
        self.outcomes[stream] = asyncio.get_running_loop().create_future()
        self.http.send_headers(stream, encode(headers), end_stream=not body and trailers is None)
        for index, chunk in enumerate(body):
            last = index == len(body) - 1 and trailers is None
            self.http.send_data(stream, chunk.encode(), end_stream=last)
        if trailers is not None:
            self.http.send_headers(stream, encode(trailers), end_stream=True)
        self.transmit()
        try:
            return await asyncio.wait_for(asyncio.shield(self.outcomes[stream]), patience)
        except asyncio.TimeoutError:
            return "no response"


def encode(headers):
    # Pseudo-headers come first.
    ordered = sorted(headers.items(), key=lambda pair: not pair[0].startswith(":"))
    return [(name.encode(), str(value).encode()) for name, value in ordered]


async def use(plan, requests):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE)
    authority = f"{plan['host']}:{plan['port']}"
    async with connect(plan["host"], plan["port"], configuration=configuration, create_protocol=Client) as client:
        return [await client.send(request, authority, plan["patienceMs"] / 1000) for request in requests]


async def main(plan):
    outcomes = await asyncio.gather(*(use(plan, requests) for requests in plan["connections"]))
    print(json.dumps([outcome for connection in outcomes for outcome in connection]))


asyncio.run(main(json.loads(sys.argv[1])))
