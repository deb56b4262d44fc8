import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Clock, systemClock } from '../../../src/domain/clock.ts'
import { encodeRecord } from '../../../src/domain/wire.ts'
import {
  KeyServiceClient,
  type KeyServiceRequest,
  type KeyServiceResponse,
} from '../../../src/keys/tiers/key-service-client.ts'
import { KeyServiceStore } from '../../../src/keys/tiers/key-service-store.ts'
import { freePort } from '../../support/free-port.ts'
import { digestNo, grantOf, recordOf } from '../../support/key-records.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { ManualTimers } from '../../support/manual-timers.ts'
import { answer, KEY_SERVICE_TOKEN, ScriptedKeyService } from '../../support/scripted-key-service.ts'
import { settled, until } from '../../support/until.ts'

const KEY = digestNo(1)
/** Timeout if a response is expected, also on a busy machine. */
const PATIENT_MS = 120_000
/** Timeout if none is expected. */
const IMPATIENT_MS = 200

let keyService: ScriptedKeyService
let store: KeyServiceStore
const clients: KeyServiceClient[] = []

beforeEach(async () => {
  keyService = await ScriptedKeyService.start()
  store = storeAt(keyService.url)
})
afterEach(async () => {
  vi.useRealTimers()
  for (const client of clients.splice(0)) await client.stop()
  await keyService.stop()
})

function storeAt(url: string, timeoutMs = PATIENT_MS, clock: Clock = systemClock): KeyServiceStore {
  const client = new KeyServiceClient({ url, token: [KEY_SERVICE_TOKEN], timeoutMs, tls: {} })
  clients.push(client)
  return new KeyServiceStore(client, { timeoutMs, clock })
}

const LATE = {
  kind: 'failed',
  error: new Error(`The key service did not respond within ${IMPATIENT_MS} ms`),
  why: 'unreachable',
}

describe('the key service', () => {
  test('is asked by digest, with the token', async () => {
    keyService.records.set(KEY, recordOf({ version: 3 }))
    expect(store.name).toBe('key_service')
    expect(await store.get(KEY)).toMatchObject({ kind: 'found', grant: { version: 3 } })
    expect(keyService.requests).toEqual([
      { path: `/internal/v1/keys/${KEY}`, authorization: `Bearer ${KEY_SERVICE_TOKEN}` },
    ])
  })

  test('may have a base path', async () => {
    const below = storeAt(`${keyService.url}/some/where/`)
    await below.get(KEY)
    expect(keyService.requests[0]?.path).toBe(`/some/where/internal/v1/keys/${KEY}`)
  })

  test('needs no MAC and no schema version in its records', async () => {
    const { v: _v, ...plain } = JSON.parse(encodeRecord(recordOf(), KEY, null)) as { v: number }
    keyService.script = (_request, response) => answer(response, 200, JSON.stringify(plain))
    expect(await store.get(KEY)).toMatchObject({ kind: 'found' })
  })

  test('can return that there is no such key', async () => {
    expect(await store.get(KEY)).toEqual({ kind: 'absent' })
  })

  test('that restarts between two lookups is asked on a new connection', async () => {
    let connections = 0
    keyService.script = (request, response) => {
      connections++
      if (connections === 2) request.socket.destroy()
      else keyService.byTheContract(request, response)
    }
    await store.get(KEY)
    expect(await store.get(KEY)).toEqual({ kind: 'absent' })
  })
})

describe('a failure, and never "there is no such key", is', () => {
  const good = encodeRecord(recordOf(), KEY, null)
  test.each<[string, number, string]>([
    ['a 404 of another server', 404, '<html>not found</html>'],
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
    ['a 200 with an invalid instant', 200, good.replace('2027-02-01T', 'tomorrow ')],
    ['a 200 with a newer schema', 200, good.replace('"v":1', '"v":9')],
    ['a 201', 201, good],
  ])('%s', async (_what, status, body) => {
    keyService.script = (_request, response) => answer(response, status, body)
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
  })

  test('a redirect, which is not followed', async () => {
    keyService.script = (_request, response) =>
      answer(response, 302, '', { location: `${keyService.url}/elsewhere` })
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
    expect(keyService.requests).toHaveLength(1)
  })

  test('a body without end', async () => {
    keyService.script = (_request, response) => {
      response.writeHead(200)
      const pour = (): void => {
        if (!response.destroyed) response.write('x'.repeat(4096), () => setImmediate(pour))
      }
      pour()
    }
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed', why: 'unusable' })
  })

  test('a body that is cut off', async () => {
    keyService.script = (_request, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write(good.slice(0, 100), () => response.destroy())
    }
    expect(await store.get(KEY)).toMatchObject({ kind: 'failed' })
  })

  test('no response, or a body that stalls: the lookup ends at the deadline', async () => {
    const impatient = storeAt(keyService.url, IMPATIENT_MS)
    keyService.script = () => {}
    expect(await impatient.get(KEY)).toMatchObject(LATE)
    keyService.script = (_request, response) => void response.writeHead(200).write('{')
    expect(await impatient.get(KEY)).toMatchObject(LATE)
  })

  test('a body sent byte by byte: the deadline covers the whole response', async () => {
    keyService.script = (_request, response) => {
      response.writeHead(200)
      const drip = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(drip))
    }
    expect(await storeAt(keyService.url, IMPATIENT_MS).get(KEY)).toMatchObject(LATE)
  })

  test('a port without a listener', async () => {
    const unreachable = storeAt(`http://127.0.0.1:${await freePort()}`)
    expect(await unreachable.get(KEY)).toMatchObject({ kind: 'failed', why: 'unreachable' })
  })

  test('a server that does not speak HTTP', async () => {
    const server = createServer((socket: Socket) => socket.end('-ERR who are you\r\n')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address() as { port: number }
    const confused = storeAt(`http://127.0.0.1:${address.port}`)
    expect(await confused.get(KEY)).toMatchObject({ kind: 'failed' })
    server.close()
  })
})

test('lookups that time out release their connections for the next ones', async () => {
  const impatient = storeAt(keyService.url, IMPATIENT_MS)
  keyService.script = () => {}
  await Promise.all(Array.from({ length: 40 }, () => impatient.get(KEY)))
  keyService.script = (request, response) => keyService.byTheContract(request, response)
  await until('the key service responds', async () => (await impatient.get(KEY)).kind === 'absent')
})

/** Keys 0 to `count` - 1, known to the key service, each with a different version. */
function knownKeys(count: number): string[] {
  const digests = Array.from({ length: count }, (_, number) => digestNo(number))
  for (const [number, digest] of digests.entries())
    keyService.records.set(digest, recordOf({ version: number + 1 }))
  return digests
}

function askAll(digests: readonly string[]): Promise<unknown[]> {
  return Promise.all(digests.map(digest => store.get(digest)))
}

function calls(path: string): number {
  return keyService.requests.filter(request => request.path.startsWith(`/internal/v1/${path}`)).length
}

describe('many lookups at once', () => {
  test('are sent in batches, and each gets its own result', async () => {
    const digests = knownKeys(1_000)
    const answers = await askAll([...digests, digestNo(5_000)])
    expect(answers.slice(0, -1)).toEqual(
      digests.map((_, number) => ({ kind: 'found', grant: grantOf({ version: number + 1 }) })),
    )
    expect(answers.at(-1)).toEqual({ kind: 'absent' })
    expect(keyService.requests).toHaveLength(4)
    expect(Math.max(...keyService.batches.map(batch => batch.length))).toBe(256)
  })

  test('start with a single one, which is sent alone and at once', async () => {
    knownKeys(2)
    await store.get(digestNo(0))
    await store.get(digestNo(1))
    expect([calls('keys/'), calls('lookups')]).toEqual([2, 0])
  })

  test('that arrive while others are in flight wait for the next call, of which few run at a time', async () => {
    const digests = knownKeys(300)
    const held = Promise.withResolvers<void>()
    keyService.script = (request, response) =>
      void held.promise.then(() => keyService.byTheContract(request, response))
    const answers: Promise<unknown>[] = []
    for (const digest of digests) {
      answers.push(store.get(digest))
      await settled()
    }
    await until('the first lookups are sent', () => keyService.requests.length === 4)
    held.resolve()
    expect(await Promise.all(answers)).toHaveLength(300)
    expect(keyService.requests.length).toBeLessThanOrEqual(7)
  })

  test('contain each key once per call', async () => {
    knownKeys(2)
    await askAll([digestNo(0), digestNo(1), digestNo(0)])
    expect(keyService.batches).toEqual([[digestNo(0), digestNo(1)]])
  })

  test('fail only for a key whose record is malformed or missing', async () => {
    const digests = knownKeys(4)
    const [good = '', broken = '', missing = '', huge = ''] = digests
    keyService.script = (_request, response) => {
      const record = JSON.parse(encodeRecord(recordOf(), good, null)) as object
      const records = {
        [good]: record,
        [broken]: { ...record, expiresAt: 'tomorrow' },
        [huge]: { ...record, name: 'x'.repeat(1_000_000) },
      }
      answer(response, 200, JSON.stringify({ records }))
    }
    const kinds = (await askAll(digests)) as { kind: string }[]
    expect(kinds.map(({ kind }) => kind)).toEqual(['found', 'failed', 'failed', 'failed'])
    expect(missing).toBe(digests[2])
  })

  test.each([
    ['a 500', 500, '{"records":{}}'],
    ['a 401', 401, ''],
    ['a 200 of garbage', 200, 'garbage'],
    ['a 200 without records', 200, '{}'],
    ['a 200 whose records are a list', 200, '{"records":[null,null]}'],
    ['a 200 whose records are null', 200, '{"records":null}'],
    ['a 200 for another key', 200, `{"records":{"${'0'.repeat(64)}":null}}`],
  ])('are not answered by %s', async (_what, status, body) => {
    keyService.script = (_request, response) => answer(response, status, body)
    const answers = await askAll([digestNo(1), digestNo(2)])
    for (const each of answers) expect(each).toMatchObject({ kind: 'failed' })
    expect(keyService.requests).toHaveLength(1)
  })

  test('end at the deadline, which includes the wait', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate'] })
    let calls = 0
    const silent = {
      request: (_request: unknown, signal: AbortSignal) => {
        calls++
        return new Promise<never>((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason)),
        )
      },
    }
    const waiting = new KeyServiceStore(silent, { timeoutMs: IMPATIENT_MS, clock: new ManualClock() })
    const answers: unknown[] = []
    for (let number = 0; number < 2_000; number++) {
      void waiting.get(digestNo(number)).then(answer => answers.push(answer))
    }
    await vi.advanceTimersByTimeAsync(IMPATIENT_MS - 1)
    expect([calls, answers.length]).toEqual([4, 0])
    await vi.advanceTimersByTimeAsync(1)
    for (const each of answers) expect(each).toMatchObject(LATE)
    expect([calls, answers.length]).toEqual([4, 2_000])
  })
})

describe('a key service without batches', () => {
  test.each([404, 405, 501])(
    '(status %i) gets single lookups, a few at a time, and no lookup fails',
    async status => {
      const digests = knownKeys(100)
      let underWay = 0
      let most = 0
      keyService.script = (request, response) => {
        if (request.method === 'POST') return answer(response, status, '{"code":"not_found","error":"?"}')
        most = Math.max(most, ++underWay)
        setImmediate(() => {
          underWay--
          keyService.byTheContract(request, response)
        })
      }
      const kinds = (await askAll(digests)) as { kind: string }[]
      expect(new Set(kinds.map(({ kind }) => kind))).toEqual(new Set(['found']))
      expect(most).toBeLessThanOrEqual(8)
      await askAll(digests)
      expect([calls('keys/'), calls('lookups')]).toEqual([200, 1])
    },
  )

  test('is asked for a batch again after some minutes', async () => {
    const clock = new ManualClock()
    store = storeAt(keyService.url, PATIENT_MS, clock)
    keyService.script = (request, response) => {
      if (request.method === 'POST') answer(response, 404, '')
      else keyService.byTheContract(request, response)
    }
    const digests = knownKeys(3)
    await askAll(digests)
    keyService.script = (request, response) => keyService.byTheContract(request, response)
    await askAll(digests)
    expect(calls('lookups')).toBe(1)
    clock.advance(300_000)
    await askAll(digests)
    expect([calls('keys/'), calls('lookups')]).toEqual([6, 2])
  })
})

/** A store whose time passes as the test says, and whose key service responds when the test says so. */
class SteppedStore {
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers()
  readonly turns: (() => void)[] = []
  readonly calls: {
    readonly request: KeyServiceRequest
    readonly signal: AbortSignal
    respond(status: number, text: string): Promise<void>
  }[] = []
  /** Kinds of results by digest. */
  readonly results = new Map<string, string>()
  readonly #store: KeyServiceStore

  constructor() {
    const timers = Object.assign(this.timers, { nextTurn: (run: () => void) => void this.turns.push(run) })
    const client = {
      request: (request: KeyServiceRequest, signal: AbortSignal) => {
        const { promise, resolve, reject } = Promise.withResolvers<KeyServiceResponse>()
        signal.addEventListener('abort', () => reject(signal.reason))
        const respond = (status: number, text: string) => {
          resolve({ status, text })
          return settled()
        }
        this.calls.push({ request, signal, respond })
        return promise
      },
    }
    this.#store = new KeyServiceStore(client, { timeoutMs: IMPATIENT_MS, clock: this.clock, timers })
  }

  get(...digests: string[]): void {
    for (const digest of digests) {
      void this.#store.get(digest).then(({ kind }) => this.results.set(digest, kind))
    }
  }

  nextTurn(): void {
    for (const run of this.turns.splice(0)) run()
  }

  /** Four calls that get no response. */
  occupy(): void {
    for (let number = 100; number < 104; number++) {
      this.get(digestNo(number))
      this.nextTurn()
    }
  }

  async pass(ms: number): Promise<void> {
    this.clock.advance(ms)
    this.timers.advance(ms)
    await settled()
  }
}

describe('a lookup', () => {
  const [FIRST = '', SECOND = '', THIRD = '', FOURTH = ''] = [1, 2, 3, 4].map(digestNo)
  const ABSENT = '{"code":"not_found"}'
  let stepped: SteppedStore
  beforeEach(() => {
    stepped = new SteppedStore()
  })

  test('leaves no timer behind once it has its result', async () => {
    stepped.get(FIRST)
    stepped.nextTurn()
    await stepped.calls[0]?.respond(404, ABSENT)
    expect(stepped.results.get(FIRST)).toBe('absent')
    expect(stepped.timers.nextDelayMs).toBeNull()
  })

  test('waits for the end of the turn together with the others of the turn', async () => {
    stepped.get(FIRST, SECOND, THIRD)
    expect([stepped.turns.length, stepped.calls.length]).toEqual([1, 0])
    stepped.nextTurn()
    stepped.get(FOURTH)
    expect([stepped.turns.length, stepped.calls.length]).toEqual([1, 1])
  })

  test('that timed out while it waited for a call is not sent any more', async () => {
    stepped.occupy()
    stepped.get(FIRST)
    stepped.nextTurn()
    await stepped.pass(IMPATIENT_MS)
    expect(stepped.results.get(FIRST)).toBe('failed')
    expect(stepped.calls).toHaveLength(4)
  })

  test('can be sent once earlier calls without a response have reached their deadlines', async () => {
    stepped.occupy()
    await stepped.pass(IMPATIENT_MS - 1)
    stepped.get(FIRST)
    stepped.nextTurn()
    expect(stepped.calls.map(({ signal }) => signal.aborted)).toEqual([false, false, false, false])
    await stepped.pass(1)
    expect(stepped.calls.map(({ signal }) => signal.aborted)).toEqual([true, true, true, true, false])
  })

  /** Four lookups, 10 ms after each other, in one batch; the youngest has its deadline at 240 ms. It is 50 ms now. */
  async function sendBatch(): Promise<SteppedStore['calls'][number]> {
    stepped.occupy()
    const occupied = stepped.calls.slice()
    for (const digest of [FIRST, SECOND, THIRD, FOURTH]) {
      await stepped.pass(10)
      stepped.get(digest)
      stepped.nextTurn()
    }
    await stepped.pass(10)
    for (const { respond } of occupied) await respond(404, ABSENT)
    const [batch, ...more] = stepped.calls.slice(4)
    if (batch === undefined || more.length > 0) throw new Error('There is not one batch')
    return batch
  }

  test('gets its result until its deadline, although older ones of its batch have timed out', async () => {
    const batch = await sendBatch()
    await stepped.pass(189)
    expect(stepped.results.get(THIRD)).toBe('failed')
    await batch.respond(200, JSON.stringify({ records: { [FOURTH]: null } }))
    expect(stepped.results.get(FOURTH)).toBe('absent')
  })

  test('ends the call of its batch at its deadline if it is the youngest', async () => {
    const batch = await sendBatch()
    await stepped.pass(189)
    expect(batch.signal.aborted).toBe(false)
    await stepped.pass(1)
    expect(batch.signal.aborted).toBe(true)
  })

  test('that has timed out is not sent singly if the key service does not offer batches', async () => {
    const batch = await sendBatch()
    await stepped.pass(170)
    await batch.respond(404, '')
    const paths = stepped.calls.slice(5).map(({ request }) => request.path)
    expect(paths).toEqual([THIRD, FOURTH].map(digest => `/keys/${digest}`))
  })
})
