import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { asByteString, flushInBatch, MAX_BATCH } from '../../src/http/buffered-response.ts'

const server = createServer()
const clients: Socket[] = []

beforeEach(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
})
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy()
  server.close()
})

/** Sends a request on its own connection and sets the head of its response. */
async function startResponse(): Promise<{ client: Socket; response: ServerResponse }> {
  // It listens on an address and a port.
  const { port } = server.address() as AddressInfo
  const client = connect(port, '127.0.0.1')
  clients.push(client)
  client.write('GET / HTTP/1.1\r\nHost: gateway\r\n\r\n')
  const [, response] = await once(server, 'request')
  response.writeHead(200, { 'content-length': '2' })
  return { client, response }
}

async function bodyReadBy(client: Socket): Promise<string> {
  const [received] = await once(client, 'data')
  return String(received).slice(-2)
}

describe('responses that are ready in one turn of the event loop', () => {
  it('are written at the end of the turn', async () => {
    const [first, second] = [await startResponse(), await startResponse()]
    flushInBatch(first.response, asByteString('ab'))
    flushInBatch(second.response, Buffer.from('cd'))
    expect([first.response.writableEnded, second.response.writableEnded]).toEqual([false, false])
    await nextTurn()
    expect([first.response.writableEnded, second.response.writableEnded]).toEqual([true, true])
    expect([await bodyReadBy(first.client), await bodyReadBy(second.client)]).toEqual(['ab', 'cd'])
  })

  it('are written before its end once a batch is full', async () => {
    const responses: ServerResponse[] = []
    while (responses.length <= MAX_BATCH) responses.push((await startResponse()).response)
    for (const response of responses) flushInBatch(response, asByteString('ab'))
    expect(responses.filter(response => response.writableEnded)).toHaveLength(MAX_BATCH)
    await nextTurn()
    expect(responses.every(response => response.writableEnded)).toBe(true)
  })

  it('are written if one of the clients disconnects', async () => {
    const [leaving, staying] = [await startResponse(), await startResponse()]
    flushInBatch(leaving.response, asByteString('ab'))
    flushInBatch(staying.response, asByteString('cd'))
    leaving.response.destroy()
    expect(await bodyReadBy(staying.client)).toBe('cd')
  })
})
