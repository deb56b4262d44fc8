import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { encodeRecord } from '../../src/domain/wire.ts'
import { OriginStore } from '../../src/keystore/origin-store.ts'
import { freePort } from '../support/free-port.ts'
import { digestNo, recordOf } from '../support/key-records.ts'
import { answer, ORIGIN_TOKEN, ScriptedOrigin } from '../support/scripted-origin.ts'
import { until } from '../support/until.ts'

const KEY = digestNo(1)
const TIMEOUT_MS = 500

let origin: ScriptedOrigin
let store: OriginStore

beforeEach(async () => {
  origin = await ScriptedOrigin.start()
  store = storeAt(origin.url)
})
afterEach(async () => {
  await store.stop()
  await origin.stop()
})

function storeAt(url: string): OriginStore {
  return new OriginStore({ url, token: ORIGIN_TOKEN, timeoutMs: TIMEOUT_MS })
}

async function failsWithin(ms: number, asked = store): Promise<void> {
  const beganMs = performance.now()
  expect(await asked.get(KEY)).toMatchObject({ kind: 'failed' })
  expect(performance.now() - beganMs).toBeLessThan(ms)
}

describe('the origin', () => {
  test('is asked by digest, with the token', async () => {
    origin.records.set(KEY, recordOf({ version: 3 }))
    expect(await store.get(KEY)).toMatchObject({ kind: 'found', grant: { version: 3 } })
    expect(origin.requests).toEqual([
      { path: `/internal/v1/keys/${KEY}`, authorization: `Bearer ${ORIGIN_TOKEN}` },
    ])
  })

  test('may live under a path', async () => {
    const below = storeAt(`${origin.url}/some/where/`)
    await below.get(KEY)
    expect(origin.requests[0]?.path).toBe(`/some/where/internal/v1/keys/${KEY}`)
    await below.stop()
  })

  test('needs no MAC and no schema version on its records: it is the authority', async () => {
    const { v: _v, ...plain } = JSON.parse(encodeRecord(recordOf(), KEY, null)) as { v: number }
    origin.script = (_request, response) => answer(response, 200, JSON.stringify(plain))
    expect(await store.get(KEY)).toMatchObject({ kind: 'found' })
  })

  test('alone can say that there is no such key', async () => {
    expect(await store.get(KEY)).toEqual({ kind: 'absent' })
  })

  test('that restarts between two look-ups is asked again, on a new connection', async () => {
    let connections = 0
    origin.script = (request, response) => {
      connections++
      if (connections === 2) request.socket.destroy()
      else origin.byTheContract(request, response)
    }
    await store.get(KEY)
    expect(await store.get(KEY)).toEqual({ kind: 'absent' })
  })
})

describe('no answer, and never taken for "there is no such key", is', () => {
  const good = encodeRecord(recordOf(), KEY, null)
  test.each<[string, number, string]>([
    ['a 404 of some other server', 404, '<html>not found</html>'],
    ['a 404 with another code', 404, '{"code":"no_route","error":"x"}'],
    ['a 404 without a body', 404, ''],
    ['a 404 whose body is null', 404, 'null'],
    ['a 401', 401, '{"code":"unauthenticated","error":"x"}'],
    ['a 403 that says not_found', 403, '{"code":"not_found","error":"x"}'],
    ['a 410', 410, '{"code":"not_found","error":"x"}'],
    ['a 500', 500, '{"code":"not_found","error":"x"}'],
    ['a 503', 503, ''],
    ['a 204', 204, ''],
    ['a 200 of garbage', 200, 'garbage'],
    ['a 200 without a workspace', 200, good.replace('"workspaceId":"ws_1",', '')],
    ['a 200 with an instant that is none', 200, good.replace('2027-02-01T', 'tomorrow ')],
    ['a 200 of a schema from the future', 200, good.replace('"v":1', '"v":9')],
    ['a 201', 201, good],
  ])('%s', async (_what, status, body) => {
    origin.script = (_request, response) => answer(response, status, body)
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
  })

  test('a redirect, which is not followed', async () => {
    origin.script = (_request, response) => answer(response, 302, '', { location: `${origin.url}/elsewhere` })
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
    expect(origin.requests).toHaveLength(1)
  })

  test('a body without end', async () => {
    origin.script = (_request, response) => {
      response.writeHead(200)
      const pour = (): void => {
        if (!response.destroyed) response.write('x'.repeat(4096), () => setImmediate(pour))
      }
      pour()
    }
    await failsWithin(TIMEOUT_MS * 3)
  })

  test('a body that is cut off', async () => {
    origin.script = (_request, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write(good.slice(0, 100), () => response.destroy())
    }
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
  })

  test('silence, before the head or in the body: it ends at the deadline', async () => {
    origin.script = () => {}
    await failsWithin(TIMEOUT_MS * 3)
    origin.script = (_request, response) => void response.writeHead(200).write('{')
    await failsWithin(TIMEOUT_MS * 3)
  })

  test('a drip of bytes that never ends: the deadline is over the whole', async () => {
    origin.script = (_request, response) => {
      response.writeHead(200)
      const drip = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(drip))
    }
    await failsWithin(TIMEOUT_MS * 3)
  })

  test('a port where nobody listens', async () => {
    const nobody = storeAt(`http://127.0.0.1:${await freePort()}`)
    await failsWithin(TIMEOUT_MS * 3, nobody)
    await nobody.stop()
  })

  test('something that speaks no HTTP', async () => {
    const server = createServer((socket: Socket) => socket.end('-ERR who are you\r\n')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address() as { port: number }
    const confused = storeAt(`http://127.0.0.1:${address.port}`)
    await failsWithin(TIMEOUT_MS * 3, confused)
    await confused.stop()
    server.close()
  })
})

test('look-ups that are given up leave no connection taken: the next ones are answered', async () => {
  origin.script = () => {}
  await Promise.all(Array.from({ length: 40 }, () => store.get(KEY)))
  origin.script = (request, response) => origin.byTheContract(request, response)
  await until('the origin answers', async () => (await store.get(KEY)).kind === 'absent')
})
