import { globSync, rmSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { recordKeyName } from '../../src/domain/wire.ts'
import { KeepAliveLoad } from '../support/keep-alive-load.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, get, type RawAnswer, RawClient } from '../support/raw-client.ts'
import { scrapeOne } from '../support/scrape.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { FAKETIME, has } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

const AUTH = '/api/v1/auth'
const WORKSPACE = '/api/v1/workspaces/ws_1'
const HOUR_S = 3600
/** The shortest lifetime that a key may have. */
const MINUTE_IN_DAYS = 1 / 1440

/** A program whose wall clock the test sets while it runs. Its monotonic clock is the machine's. */
function steppedClock() {
  const file = `${temporaryDirectory()}/offset`
  const set = (offsetS: number) => writeFileSync(file, `${offsetS < 0 ? '' : '+'}${offsetS}s\n`)
  set(0)
  const [library = ''] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1')
  const env = {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    DONT_FAKE_MONOTONIC: '1',
  }
  return { env, set }
}

/** libfaketime's shared memory is named after the process id, which may be reused, and survives a kill. */
function stopAtEnd({ process: { child }, process: started }: Listening): void {
  onTestFinished(async () => {
    await started.stop()
    for (const name of ['faketime_shm', 'sem.faketime_sem']) {
      rmSync(`/dev/shm/${name}_${child.pid}`, { force: true })
    }
  })
}

describe.skipIf(!has(FAKETIME))('when the clock of a gateway is set', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld()
  })
  afterAll(() => world.stop())

  test('an expired key stays expired, however far the clock is set back', async () => {
    const { env, issue } = world
    const clock = steppedClock()
    // By the gateway's clock most of the key's minute has passed when it is issued.
    clock.set(56)
    const gateway = await startPostern('gateway', { ...env, ...clock.env })
    stopAtEnd(gateway)
    const lasting = await issue()
    const short = await issue({ expiresInDays: MINUTE_IN_DAYS })
    const codeOf = async (secret: string) => {
      const answer = await exchange(gateway.urls.gateway, get(AUTH, secret))
      return answer.status === 200 ? 200 : (JSON.parse(answer.body) as { code: string }).code
    }
    expect([await codeOf(short.secret), await codeOf(lasting.secret)]).toEqual([200, 200])
    await until('the key has expired', async () => (await codeOf(short.secret)) === 'key_expired')
    for (const offsetS of [0, -300, -HOUR_S]) {
      clock.set(offsetS)
      expect([await codeOf(short.secret), await codeOf(lasting.secret)]).toEqual(['key_expired', 200])
    }
  })

  test('a key expires when the clock is set forward past its expiry', async () => {
    const { env, issue } = world
    const clock = steppedClock()
    const gateway = await startPostern('gateway', { ...env, ...clock.env })
    stopAtEnd(gateway)
    const short = await issue({ expiresInDays: MINUTE_IN_DAYS })
    const codeOf = async () => (await exchange(gateway.urls.gateway, get(AUTH, short.secret))).status
    expect(await codeOf()).toBe(200)
    clock.set(60)
    expect(await codeOf()).toBe(401)
  })

  test('setting it forth and back by an hour under load fails no request and no deadline, and the metric shows the skew', async () => {
    const { env, issue, upstream } = world
    const clock = steppedClock()
    // Longer than a busy machine delays a response.
    const settings = { ...env, ...clock.env, POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: '5000' }
    const gateway = await startPostern('gateway', settings)
    stopAtEnd(gateway)
    const { secret } = await issue()
    const skew = () => scrapeOne(gateway.urls.ops, 'postern_clock_skew_seconds')
    await until('it is connected to the console', async () => Math.abs(await skew()) < 1)
    const load = new KeepAliveLoad({
      clients: 8,
      target: () => gateway.urls.gateway,
      next: () => ({ bytes: get(WORKSPACE, secret), expected: '{"id":"ws_1"}' }),
    })
    let release = Promise.withResolvers<void>()
    upstream.hold = request => {
      if (request.includes('limit=1 ')) return release.promise
      return request.includes('limit=2 ') ? new Promise(() => {}) : undefined
    }
    const timeouts: Promise<RawAnswer[]>[] = []
    for (const offsetS of [HOUR_S, -HOUR_S, 300, -300, 0]) {
      release = Promise.withResolvers()
      const [held, hanging] = [1, 2].map(limit => {
        const client = new RawClient(gateway.urls.gateway)
        client.send(get(`${WORKSPACE}/files?limit=${limit}`, secret))
        return client
      })
      if (hanging !== undefined) timeouts.push(hanging.answers(1))
      clock.set(offsetS)
      await load.reached(load.answered + 50)
      // Pending requests time out neither early nor late, independent of the wall clock.
      release.resolve()
      expect((await held?.answers(1))?.[0]?.status).toBe(200)
      if (offsetS === HOUR_S) await until('the metric shows it', async () => (await skew()) > HOUR_S - 10)
    }
    for (const [answer] of await Promise.all(timeouts)) expect(answer?.status).toBe(504)
    await load.stop()
    process.stdout.write(
      `clock set forth and back by an hour: ${load.sent} requests, wrong ${load.wrong.length}, failed ${load.failed.length}\n`,
    )
    expect({ wrong: load.wrong, failed: load.failed }).toEqual({ wrong: [], failed: [] })
  })

  test('a console whose clock is set keeps working: keys are issued and revoked, and every gateway is notified', async () => {
    const { env, redis } = world
    const clock = steppedClock()
    const console = await startPostern('console', {
      ...Object.fromEntries(Object.entries(env).filter(([name]) => !/UPSTREAM|KEY_SERVICE_URL/.test(name))),
      ...clock.env,
      POSTERN_ADMIN_TOKEN: 'admin-token-of-the-clocks',
      POSTERN_DATABASE_URL: `sqlite:${temporaryDirectory()}/keys.db`,
    })
    stopAtEnd(console)
    const gateway = await startPostern('gateway', { ...env, POSTERN_KEY_SERVICE_URL: console.urls.internal })
    onTestFinished(() => void gateway.process.stop())
    const send = async (path: string, body?: string) => {
      const response = await fetch(`${console.urls.console}/admin/v1${path}`, {
        method: 'POST',
        headers: {
          authorization: 'Bearer admin-token-of-the-clocks',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body }),
      })
      return (await response.json()) as { key: { id: string }; secret: string; announced?: boolean }
    }
    const statusOf = async (secret: string) =>
      (await exchange(gateway.urls.gateway, get(AUTH, secret))).status
    const records: string[] = []
    for (const offsetS of [0, -HOUR_S, HOUR_S, 0]) {
      clock.set(offsetS)
      const { key, secret } = await send('/workspaces/ws_1/keys', '{"name":"a","scopes":["workspace:read"]}')
      records.push(recordKeyName(digestKey(secret)))
      expect(await statusOf(secret)).toBe(200)
      await until('the key is rejected', async () => {
        await send(`/keys/${key.id}/revoke`)
        return (await statusOf(secret)) === 401
      })
    }
    expect(await redis.admin.exists(...records)).toBe(4)
  })
})
