import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { scrape, scrapeOne, sumOf } from '../support/scrape.ts'
import { SecretMount } from '../support/secret-mount.ts'
import { SteadyLoad } from '../support/steady-load.ts'
import { until } from '../support/until.ts'

const TIMESTAMP = 'postern_config_last_reload_timestamp_seconds'
const newToken = () => randomBytes(24).toString('base64url')

type Plane = 'gateway' | 'console'

/** Without Redis: every lookup needs the key service token. Each plane has its own file. */
async function start() {
  const [old, young, oldAdmin, youngAdmin] = [newToken(), newToken(), newToken(), newToken()]
  const secrets = new SecretMount({
    gateway: old,
    console: old,
    admin: oldAdmin,
    signing: randomBytes(32).toString('base64'),
  })
  onTestFinished(() => secrets.remove())
  const port = String(await freePort())
  const env = (plane: Plane) => ({
    POSTERN_KEYS_SIGNING_SECRETS_FILE: secrets.file('signing'),
    POSTERN_KEY_SERVICE_TOKEN_FILE: secrets.file(plane),
    POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${port}`,
    POSTERN_DRAIN_DELAY_MS: '0',
    POSTERN_RELOAD_EVERY_SECONDS: '0.1',
    POSTERN_KEYS_STALE_SECONDS: '0',
    POSTERN_KEYS_MEMORY_TTL_SECONDS: '0',
    // Each request is a lookup, which no busy machine must make fail.
    POSTERN_KEY_SERVICE_TIMEOUT_MS: '60000',
  })
  const console = await startPostern('console', {
    ...env('console'),
    POSTERN_CONSOLE_INTERNAL_PORT: port,
    POSTERN_ADMIN_TOKEN_FILE: secrets.file('admin'),
    POSTERN_DATABASE_URL: 'sqlite::memory:',
  })
  onTestFinished(async () => void (await console.process.stop()))
  const gateway = await startPostern('gateway', {
    ...env('gateway'),
    POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
  })
  onTestFinished(async () => void (await gateway.process.stop()))
  const planes: Record<Plane, Listening> = { gateway, console }
  const swap = async (plane: Plane, files: Readonly<Record<string, string>>) => {
    const before = await scrapeOne(planes[plane].urls.ops, TIMESTAMP)
    secrets.swap(files)
    await until(
      'the files are reloaded',
      async () => (await scrapeOne(planes[plane].urls.ops, TIMESTAMP)) > before,
    )
  }
  const issue = async (token: string) => {
    const response = await fetch(`${console.urls.console}/admin/v1/workspaces/ws_1/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'test', scopes: ['files:read'] }),
    })
    return { status: response.status, secret: ((await response.json()) as { secret?: string }).secret ?? '' }
  }
  return { old, young, oldAdmin, youngAdmin, console, gateway, swap, issue }
}

/** Rejected calls of the gateway. */
async function rejectedCalls(console: Listening): Promise<number> {
  return sumOf(await scrape(console.urls.ops), 'postern_internal_requests_total', 'code="401"')
}

test.each([
  ['the console first', ['console', 'gateway']],
  ['the gateway first', ['gateway', 'console']],
] as const)('a key service token is replaced under load, %s, and no call is rejected', async (_, order) => {
  const { old, young, oldAdmin, console, gateway, swap, issue } = await start()
  const load = new SteadyLoad(2)
  onTestFinished(() => load.stop())
  load.holders.push({ name: 'key', secret: (await issue(oldAdmin)).secret, expected: '200' })
  load.join(gateway.urls.gateway)
  for (const list of [`${old}\n${young}\n`, `${young},${old}`, young]) {
    for (const plane of order) {
      await swap(plane, { [plane]: list })
      await load.continueFor(50)
    }
  }
  expect(load.wrong).toEqual([])
  expect(await rejectedCalls(console)).toBe(0)
  const reports = console.process.log
    .filter(({ msg, setting }) => msg === 'token in use' && setting === 'keyService.token')
    .map(({ position, of }) => `${position} of ${of}`)
  // What is used of both lists: the first alone, and during the change the second.
  expect(reports).toContain('1 of 2')
  expect(console.process.lines.join('\n')).not.toContain(young)
})

test('an admin token is replaced while both are in use, and the log says when the old one was used', async () => {
  const { oldAdmin, youngAdmin, console, swap, issue } = await start()
  await swap('console', { admin: `${youngAdmin},${oldAdmin}` })
  expect([(await issue(oldAdmin)).status, (await issue(youngAdmin)).status]).toEqual([201, 201])
  const line = await console.process.logged(
    ({ msg, setting, position }) =>
      msg === 'token in use' && setting === 'console.adminToken' && position === 2,
  )
  expect(line).toMatchObject({ of: 2 })
  await swap('console', { admin: youngAdmin })
  expect([(await issue(oldAdmin)).status, (await issue(youngAdmin)).status]).toEqual([401, 201])
})
