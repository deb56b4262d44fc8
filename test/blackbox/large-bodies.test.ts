import { createHash, randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { scrapeOne } from '../support/scrape.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
/** No part of it is like another; the gateway does not read it. */
const BODY = randomBytes(8 * 1024 * 1024)
const DIGEST = createHash('sha256').update(BODY).digest('hex')
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
/** V8 collects the whole heap after 64 MB of such memory. */
const RESPONSES = 6
const AT_MOST_BYTES = 8 * 1024 * 1024

let world: World
let key: IssuedKey
beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world.stop())

/** @returns the digest of the body that a client received, which pauses `pauses` times */
async function digestOfResponse(pauses = 0): Promise<string> {
  const headers = { authorization: `Bearer ${key.secret}` }
  const { body } = await fetch(world.gateway.urls.gateway + WORKSPACE, { headers })
  const hash = createHash('sha256')
  let left = pauses
  for await (const part of body ?? []) {
    hash.update(part)
    for (let turn = 0; left > 0 && turn < 100; turn++) await nextTurn()
    left -= 1
  }
  return hash.digest('hex')
}

const external = () => scrapeOne(world.gateway.urls.ops, 'nodejs_external_memory_bytes')
/** In pieces of all lengths, whose ends fall anywhere within a read of the gateway. */
function inChunks(): Buffer {
  const parts: (Buffer | string)[] = [`${HEAD}Transfer-Encoding: chunked\r\n\r\n`]
  for (let at = 0, length = 1; at < BODY.length; at += length, length = (length * 7) % 100_003) {
    const piece = BODY.subarray(at, at + length)
    parts.push(`${piece.length.toString(16)}\r\n`, piece, '\r\n')
  }
  return Buffer.concat([...parts, '0\r\n\r\n'].map(part => Buffer.from(part)))
}

const FRAMED = {
  'by its length': Buffer.concat([Buffer.from(`${HEAD}Content-Length: ${BODY.length}\r\n\r\n`), BODY]),
  'in chunks': inChunks(),
}

test.each(Object.entries(FRAMED))(
  'a large body, sent %s, arrives byte for byte, also where the client pauses',
  async (_, bytes) => {
    world.upstream.answer = () => bytes
    expect(await Promise.all([0, 30, 60].map(digestOfResponse))).toEqual([DIGEST, DIGEST, DIGEST])
  },
)

test('the memory of a large body is given back as it is sent, without a collection of the whole heap', async () => {
  world.upstream.answer = () => FRAMED['by its length']
  await digestOfResponse()
  const before = await external()
  for (let sent = 0; sent < RESPONSES; sent++) await digestOfResponse()
  expect((await external()) - before).toBeLessThan(AT_MOST_BYTES)
})
