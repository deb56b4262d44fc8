import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { createResolver } from '../../../src/console/webhooks/guarded-connector.ts'

const HEADER_BYTES = 12
/** RFC 1035, section 3.2.2, and RFC 3596. */
const TYPES: Readonly<Record<number, 'A' | 'AAAA'>> = { 1: 'A', 28: 'AAAA' }
const V4 = [192, 0, 2, 1]
const V6 = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]

interface Records {
  readonly A?: readonly number[]
  readonly AAAA?: readonly number[]
}

/** A name server with these addresses for every name; with null it does not answer. */
async function startNameServer(records: Records | null) {
  const socket = createSocket('udp4')
  const queries: (string | undefined)[] = []
  socket.on('message', (query, { port, address }) => {
    const end = query.indexOf(0, HEADER_BYTES) + 5
    const type = TYPES[query.readUInt16BE(end - 4)]
    queries.push(type)
    if (records === null || type === undefined) return
    const data = records[type] ?? null
    const question = query.subarray(HEADER_BYTES, end)
    // Id, response, counts: one question, at most one answer, which refers to the name in the question.
    const header = Buffer.concat([query.subarray(0, 2), Buffer.from([0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0])])
    header[7] = data === null ? 0 : 1
    const answer =
      data === null
        ? []
        : [0xc0, HEADER_BYTES, ...query.subarray(end - 4, end), 0, 0, 0, 60, 0, data.length, ...data]
    socket.send(Buffer.concat([header, question, Buffer.from(answer)]), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  onTestFinished(() => void socket.close())
  return { queries, servers: [`127.0.0.1:${socket.address().port}`] }
}

test.each<[Records, readonly string[]]>([
  [{ A: V4, AAAA: V6 }, ['192.0.2.1', '2001:db8::1']],
  [{ A: V4 }, ['192.0.2.1']],
  [{ AAAA: V6 }, ['2001:db8::1']],
])('a webhook may have addresses of either family: %j', async (records, addresses) => {
  const { servers } = await startNameServer(records)
  expect(await createResolver(1_000, servers)('hooks.test')).toEqual(addresses)
})

test('a name without an address is rejected', async () => {
  const { servers } = await startNameServer({})
  const found = createResolver(1_000, servers)('hooks.test')
  await expect(found).rejects.toMatchObject({ code: 'NO_ADDRESS', message: 'The name has no address' })
})

test('a name server that does not answer is asked once, for no longer than the time of a delivery', async () => {
  const { servers, queries } = await startNameServer(null)
  const found = createResolver(50, servers)('hooks.test')
  await expect(found).rejects.toMatchObject({ code: 'NO_ADDRESS' })
  expect(queries.toSorted()).toEqual(['A', 'AAAA'])
})
