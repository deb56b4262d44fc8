import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endTogether, MOST_TOGETHER } from '../../src/http/batched-flush.ts'
import { asByteString } from '../../src/http/byte-string.ts'

const server = createServer()
const clients: Socket[] = []

beforeEach(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
})
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy()
  server.close()
})

/** A request on a connection of its own, the head of its answer written down. */
async function asked(): Promise<{ client: Socket; response: ServerResponse }> {
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
  const [answer] = await once(client, 'data')
  return String(answer).slice(-2)
}

describe('answers that are ready in one turn of the event loop', () => {
  it('are written when the turn is over', async () => {
    const [first, second] = [await asked(), await asked()]
    endTogether(first.response, asByteString('ab'))
    endTogether(second.response, Buffer.from('cd'))
    expect([first.response.writableEnded, second.response.writableEnded]).toEqual([false, false])
    await nextTurn()
    expect([first.response.writableEnded, second.response.writableEnded]).toEqual([true, true])
    expect([await bodyReadBy(first.client), await bodyReadBy(second.client)]).toEqual(['ab', 'cd'])
  })

  it('do not wait for its end where there are many', async () => {
    const responses: ServerResponse[] = []
    while (responses.length <= MOST_TOGETHER) responses.push((await asked()).response)
    for (const response of responses) endTogether(response, asByteString('ab'))
    expect(responses.filter(response => response.writableEnded)).toHaveLength(MOST_TOGETHER)
    await nextTurn()
    expect(responses.every(response => response.writableEnded)).toBe(true)
  })

  it('are written though one of their clients has left', async () => {
    const [leaving, staying] = [await asked(), await asked()]
    endTogether(leaving.response, asByteString('ab'))
    endTogether(staying.response, asByteString('cd'))
    leaving.response.destroy()
    expect(await bodyReadBy(staying.client)).toBe('cd')
  })
})
