import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { createInProcessAnnouncer } from '../../src/console/announcing/announcer.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { type ConsoleSite, startConsoleSite } from '../support/console-site.ts'
import { until } from '../support/until.ts'

const NOW_MS = Date.parse('2026-11-21T09:30:00Z')
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const GATEWAYS = ['postern-gateway-6c9f7-2lq8x', 'postern-gateway-6c9f7-8vwzt', 'postern-gateway-6c9f7-kp4dn']
const KEYS = '/workspaces/ws_1/keys'
const HOSTILE = `<img src=x onerror=alert(1)>\u202egnp`
/** In the pictures of the pages a partner has a usual name, in the tests a hostile one. */
const PARTNER = process.env['POSTERN_PICTURES'] === '1' ? 'Northwind' : HOSTILE

const QUOTA = { name: 'quota', per: 'key', requests: 1_000_000, window: 'month' } as const
/** The pictures of the pages show a console without limits. */
const LIMITS =
  process.env['POSTERN_PICTURES'] === '1'
    ? {}
    : { limits: { policies: [QUOTA], plans: { business: { policies: [QUOTA] } } } }

export type SceneVisitor = 'stranger' | 'manager' | 'administrator'

/** One page in one state. */
export interface Scene {
  readonly name: string
  /** Default: a manager of two workspaces. */
  readonly as?: SceneVisitor
  show(page: Page): Promise<unknown>
}

/** A clock that stands still until a scene depends on durations. */
class StageClock {
  #wallMs = NOW_MS
  #runsSinceMs: number | null = null

  wallMs(): number {
    return this.#wallMs + (this.#runsSinceMs === null ? 0 : Math.round(performance.now() - this.#runsSinceMs))
  }

  monotonicMs(): number {
    return performance.now()
  }

  set(wallMs: number): void {
    this.#wallMs = wallMs
  }

  run(): void {
    this.#runsSinceMs ??= performance.now()
  }
}

export interface Stage {
  readonly site: ConsoleSite
  readonly scenes: readonly Scene[]
  stop(): Promise<void>
}

/** A workspace with keys in every state. */
export async function setStage(): Promise<Stage> {
  const clock = new StageClock()
  const listener = createServer((_, response) => response.writeHead(204).end())
  await once(listener.listen(0, '127.0.0.1'), 'listening')
  const { port } = listener.address() as AddressInfo
  const webhookUrl = `http://127.0.0.1:${port}/`
  const announcer = createInProcessAnnouncer(() => {})
  const workspaceNames = { ws_1: PARTNER, ws_2: 'long '.repeat(12) }
  const site = await startConsoleSite({ clock, announcer, webhookUrl, workspaceNames, ...LIMITS })
  const ago = <Done>(ms: number, act: () => Promise<Done>): Promise<Done> => {
    clock.set(NOW_MS - ms)
    return act()
  }
  const all = ['files:read', 'workspace:read']
  const issue = (key: Parameters<ConsoleSite['issue']>[0]) => () => site.issue(key)
  await ago(118 * DAY_MS, issue({ name: 'load test, July', scopes: ['workspace:read'], expiresInDays: 30 }))
  const laptop = await ago(97 * DAY_MS, issue({ name: 'old laptop', scopes: all }))
  const importer = await ago(81 * DAY_MS - 6 * HOUR_MS, issue({ name: 'importer, production', scopes: all }))
  const build = await ago(64 * DAY_MS, issue({ name: 'build server', scopes: ['files:read'] }))
  await ago(52 * DAY_MS, () => site.revoke(laptop.id))
  const nightly = await ago(40 * DAY_MS, issue({ name: 'nightly export', scopes: all, expiresInDays: 180 }))
  const described = await ago(20 * DAY_MS, issue({ name: `partner ${PARTNER}`, scopes: all }))
  await ago(12 * DAY_MS, () =>
    site.edit(described.id, {
      description: `Owned by ${HOSTILE}, ticket ${'4711 '.repeat(20)}`,
      allowedCidrs: ['192.0.2.0/24', '2001:db8::/32'],
    }),
  )
  await ago(35 * DAY_MS, issue({ name: 'disaster recovery', scopes: all }))
  const suspended = await ago(15 * DAY_MS, issue({ name: 'on holiday', scopes: all }))
  await ago(2 * DAY_MS, () => site.suspend(suspended.id))
  const leaked = await ago(9 * DAY_MS, issue({ name: 'workshop', scopes: ['files:read'] }))
  await ago(3 * HOUR_MS, () =>
    site.reportLeak(leaked.secret, `https://example.com/${'slides-'.repeat(30)}${HOSTILE}`),
  )
  const successor = await ago(5 * HOUR_MS, () => site.rotate(build.id))
  clock.set(NOW_MS)
  await site.noteUse({
    [importer.id]: NOW_MS - 2 * MINUTE_MS,
    [build.id]: NOW_MS - 41 * MINUTE_MS,
    [successor]: NOW_MS - MINUTE_MS,
    [nightly.id]: NOW_MS - 7 * HOUR_MS,
    [laptop.id]: NOW_MS - 53 * DAY_MS,
    [described.id]: NOW_MS - 3 * MINUTE_MS,
  })
  const used = [
    [importer.id, 900],
    [build.id, 120],
    [described.id, 40],
  ] as const
  const near = { plan: null, policy: QUOTA.name, requests: QUOTA.requests, windowSeconds: null }
  const endsAt = Date.parse('2026-12-01T00:00:00Z')
  await site.reportUsage({
    ...usageOf([...used.map(([id, perHour]) => [id, perHour, 13 * 24] as const), [successor, 60, 5]]),
    limits: used.map(([keyId], index) => ({ ...near, keyId, used: 1_000_000 - index * 90_000, endsAt })),
  })
  const stop = async () => {
    await site.stop()
    listener.close()
  }
  const ids = {
    importer: importer.id,
    build: build.id,
    successor,
    described: described.id,
    suspended: suspended.id,
    leaked: leaked.id,
  }
  return { site, stop, scenes: scenesOf(site, clock, { ...ids, secret: described.secret }) }
}

/** Two weeks of requests, some rejected, with a rhythm of days and hours. @param keys ids, each with its requests in an hour at noon, and hours of use */
function usageOf(keys: readonly (readonly [keyId: string, perHour: number, hours: number])[]) {
  const minute = (hoursAgo: number) => Math.floor((NOW_MS - hoursAgo * HOUR_MS) / MINUTE_MS)
  const counts = keys.flatMap(([keyId, most, hours]) =>
    Array.from({ length: hours }, (_, hoursAgo) => {
      const at = minute(hoursAgo)
      const noon = 1 + Math.sin((((at / 60) % 24) - 6) * (Math.PI / 12))
      const of = (route: string, code: string, share: number) => ({
        keyId,
        route,
        code,
        minute: at,
        count: 1 + Math.round((most * share * noon) / 2),
      })
      return [
        of('files', 'ok', 0.7),
        of('workspace', 'ok', 0.25),
        of('files', 'rate_limited', hoursAgo % 7 === 0 ? 0.2 : 0.01),
      ]
    }).flat(),
  )
  const reasons = [
    'other_workspace',
    'scope_missing',
    'key_expired',
    'rate_limited',
    'upstream_timeout',
    'of_a_newer_gateway',
  ]
  const refusals = keys.flatMap(([keyId], key) =>
    reasons.map((reason, index) => ({
      ...{
        keyId,
        reason,
        route: index % 2 === 0 ? 'files' : 'workspace',
        at: NOW_MS - (1 + 3 * key + 7 * index) * MINUTE_MS,
      },
      ...{
        code: reason === 'other_workspace' ? 'not_found' : reason,
        requestId: `${keyId.slice(4)}-${index}`,
      },
      address: index % 2 === 0 ? '192.0.2.0/24' : '2001:db8:12::/48',
    })),
  )
  return { counts, refusals, omittedRefusals: [{ workspaceId: 'ws_1', count: 3 }] }
}

interface Actors {
  readonly importer: string
  readonly build: string
  readonly successor: string
  readonly described: string
  readonly suspended: string
  readonly leaked: string
  /** Of `described`. */
  readonly secret: string
}

function scenesOf(
  site: ConsoleSite,
  clock: StageClock,
  { importer, build, successor, described, suspended, leaked, secret }: Actors,
): Scene[] {
  let conflicts = 0
  const find = async (page: Page, key: string) => {
    await page.goto(`${site.origin}/find-key`)
    await page.getByLabel('Key', { exact: true }).fill(key)
    await page.getByRole('button', { name: 'Find' }).click()
    await page.getByText('has this secret').waitFor()
  }
  const open = (path: string) => (page: Page) => page.goto(site.origin + path)
  const issue = async (page: Page, name: string) => {
    await page.goto(`${site.origin}${KEYS}/new`)
    await page.getByLabel('Name').fill(name)
    if (name !== '') await page.getByLabel('files:read').check()
    await page.getByRole('button', { name: 'Issue key' }).click()
    await page.locator(name === '' ? '#problems' : '#secret').waitFor()
  }
  const setWebhook = async (page: Page, url: string) => {
    await page.goto(`${site.origin}/workspaces/ws_1/webhook`)
    await page.getByLabel('Address').fill(url)
    await page.getByRole('button', { name: 'Set address' }).click()
    await page.locator('#problems, #secret').waitFor()
  }
  /** At the webhook that `setWebhook` set: this console, which has no such path. */
  const showFailedDelivery = async (page: Page) => {
    await page.goto(`${site.origin}/workspaces/ws_1/webhook`)
    await page.getByRole('button', { name: 'Send a test' }).click()
    await until('the delivery has failed', async () => {
      await page.goto(`${site.origin}/workspaces/ws_1/webhook`)
      return page.getByText('Response status 404').first().isVisible()
    })
  }
  const revoke = async (page: Page, confirmedBy: readonly string[]) => {
    clock.run()
    const { id, secret } = await site.issue({ name: 'contractor, until Friday' })
    for (const name of GATEWAYS) await site.confirm(name)
    for (const name of confirmedBy) await site.confirm(name, [{ digest: digestKey(secret), version: 2 }])
    await page.goto(`${site.origin}${KEYS}/${id}/revoke`)
    await page.getByRole('button', { name: 'Revoke now' }).click()
    await page.getByRole('heading', { name: 'Key revoked' }).waitFor()
  }
  return [
    { name: 'sign-in', as: 'stranger', show: open('/sign-in') },
    { name: 'workspaces', show: open('/workspaces') },
    { name: 'keys', show: open(KEYS) },
    { name: 'keys-expiring', show: open(`${KEYS}?state=expiring`) },
    { name: 'keys-searched', show: open(`${KEYS}?q=server&scope=files%3Aread&sort=name`) },
    { name: 'keys-no-match', show: open(`${KEYS}?q=${encodeURIComponent(HOSTILE)}`) },
    {
      name: 'keys-selected',
      show: async page => {
        await page.goto(`${site.origin}${KEYS}`)
        for (const box of await page.locator('input[name=key]').all()) await box.check()
        await page.getByRole('button', { name: 'Suspend', exact: true }).click()
        await page.getByRole('heading', { level: 1, name: 'Suspend' }).waitFor()
      },
    },
    { name: 'keys-none', show: open('/workspaces/ws_2/keys') },
    { name: 'key', show: open(`${KEYS}/${importer}`) },
    { name: 'key-rotated', show: open(`${KEYS}/${successor}`) },
    { name: 'key-described', show: open(`${KEYS}/${described}`) },
    { name: 'key-suspended', show: open(`${KEYS}/${suspended}`) },
    { name: 'key-leaked', show: open(`${KEYS}/${leaked}`) },
    { name: 'edit', show: open(`${KEYS}/${described}/edit`) },
    {
      name: 'edit-conflict',
      show: async page => {
        await page.goto(`${site.origin}${KEYS}/${described}/edit`)
        await page.getByLabel('Name').fill('my own name')
        await site.edit(described, { description: `changed by ${HOSTILE} ${conflicts++}` })
        await page.getByRole('button', { name: 'Save' }).click()
        await page.getByText('This key was changed meanwhile').waitFor()
      },
    },
    { name: 'suspend', show: open(`${KEYS}/${importer}/suspend`) },
    { name: 'resume', show: open(`${KEYS}/${suspended}/resume`) },
    { name: 'find-key', show: open('/find-key') },
    { name: 'find-key-found', show: page => find(page, secret) },
    { name: 'find-key-unknown', show: page => find(page, `wsk_${'A'.repeat(54)}`) },
    { name: 'revoke-all', show: open('/workspaces/ws_1/revoke-all') },
    {
      name: 'revoke-all-problem',
      show: async page => {
        await page.goto(`${site.origin}/workspaces/ws_1/revoke-all`)
        await page.getByRole('button', { name: 'Revoke all keys now' }).click()
        await page.locator('#problems').waitFor()
      },
    },
    {
      name: 'rotate-now',
      show: async page => {
        await page.goto(`${site.origin}${KEYS}/${importer}/rotate`)
        await page.getByLabel('No overlap').check()
        await page.getByRole('button', { name: 'Rotate key' }).click()
        await page.getByRole('button', { name: 'Rotate and revoke now' }).waitFor()
      },
    },
    { name: 'issue', show: open(`${KEYS}/new`) },
    { name: 'issue-problems', show: page => issue(page, '') },
    { name: 'rotate', show: open(`${KEYS}/${importer}/rotate`) },
    { name: 'finish', show: open(`${KEYS}/${build}/finish`) },
    {
      name: 'revoke',
      // A dialog, or a page without JavaScript.
      show: async page => {
        await page.goto(`${site.origin}${KEYS}/${importer}`)
        await page.locator('a', { hasText: 'Revoke' }).click()
        await page.getByText('This key was last used').filter({ visible: true }).waitFor()
      },
    },
    { name: 'key-usage-400d', show: open(`${KEYS}/${importer}?range=400d`) },
    { name: 'usage', show: open('/workspaces/ws_1/usage?range=7d') },
    { name: 'usage-24h', show: open('/workspaces/ws_1/usage?range=24h') },
    {
      name: 'usage-two-days',
      show: open('/workspaces/ws_1/usage?range=custom&from=2026-11-20&to=2026-11-21'),
    },
    { name: 'usage-none', show: open('/workspaces/ws_2/usage') },
    { name: 'limits', show: open('/workspaces/ws_1/limits') },
    { name: 'refusals', show: open('/workspaces/ws_1/refusals') },
    {
      name: 'refusals-no-match',
      show: open(`/workspaces/ws_1/refusals?request=${encodeURIComponent(HOSTILE)}`),
    },
    {
      name: 'refusals-filtered',
      show: async page => {
        await page.goto(`${site.origin}/workspaces/ws_1/refusals?keyId=${importer}&from=2026-01-01T00%3A00`)
        await page.locator('.entries summary').first().click()
      },
    },
    { name: 'refusals-problems', show: open('/workspaces/ws_1/refusals?keyId=importer&to=today') },
    { name: 'refusals-of-all', show: open('/refusals') },
    { name: 'api', show: open('/workspaces/ws_1/api') },
    { name: 'not-found', show: open('/nothing') },
    { name: 'secret', show: page => issue(page, 'deploy, staging') },
    {
      name: 'issued-already',
      show: page =>
        issue(page, 'reloaded')
          .then(() => page.reload())
          .then(() => page.getByRole('heading', { name: 'Key already issued' }).waitFor()),
    },
    // After the changes of the scenes before it.
    { name: 'audit', show: open('/workspaces/ws_1/audit') },
    {
      name: 'audit-filtered',
      show: open(`/workspaces/ws_1/audit?keyId=${importer}&from=2026-01-01T00%3A00`),
    },
    {
      name: 'audit-problems',
      show: open(`/workspaces/ws_1/audit?keyId=${encodeURIComponent(HOSTILE)}&to=x`),
    },
    { name: 'deliveries', show: open('/workspaces/ws_1/deliveries') },
    { name: 'webhook-none', show: open('/workspaces/ws_2/webhook') },
    { name: 'webhook-problem', show: page => setWebhook(page, 'http://10.0.0.1/') },
    { name: 'webhook-secret', show: page => setWebhook(page, `${site.origin}/${'long-'.repeat(30)}`) },
    { name: 'webhook', show: showFailedDelivery },
    ...administratorScenes(site.origin),
    {
      name: 'keys-changed',
      show: async page => {
        await site.issue({ name: 'to be suspended' })
        await page.goto(`${site.origin}${KEYS}`)
        await page.locator('input[name=key]').first().check()
        await page.getByRole('button', { name: 'Suspend', exact: true }).click()
        await page.getByRole('button', { name: 'Suspend now' }).click()
        await page.getByRole('heading', { name: '1 key suspended' }).waitFor()
      },
    },
    { name: 'revoked', show: page => revoke(page, GATEWAYS) },
    { name: 'revoked-silent', show: page => revoke(page, GATEWAYS.slice(1)) },
  ]
}

/** After the changes of the scenes before them. */
function administratorScenes(origin: string): Scene[] {
  const open = (path: string) => (page: Page) => page.goto(origin + path)
  const choosePlan = async (page: Page): Promise<boolean> => {
    await page.goto(`${origin}/workspaces/ws_2/plan`)
    // The console of the pictures has none.
    if (await page.getByText('No plan is configured').isVisible()) return false
    await page.getByLabel('Plan').selectOption('business')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('heading', { name: 'Change the plan?' }).waitFor()
    return true
  }
  const changePlan = async (page: Page) => {
    if (!(await choosePlan(page))) return
    await page.getByRole('button', { name: 'Change the plan' }).click()
    await page.getByRole('heading', { name: 'Plan changed' }).waitFor()
  }
  let tokens = 0
  const makeToken = async (page: Page) => {
    const name = `deploy ${++tokens}`
    await page.goto(`${origin}/tokens/new`)
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('audit:read').check()
    await page.getByRole('button', { name: 'Make token' }).click()
    await page.locator('#secret').waitFor()
    return name
  }
  const revokeToken = async (page: Page) => {
    const name = await makeToken(page)
    await page.goto(`${origin}/tokens`)
    await page.getByRole('link', { name: `Revoke ${name}` }).click()
    await page.getByRole('button', { name: 'Revoke now' }).waitFor()
  }
  const scenes = {
    'all-keys': open('/keys'),
    'all-usage': open('/usage'),
    'all-audit': open('/audit'),
    'all-refusals': open('/refusals'),
    'all-limits': open('/limits'),
    plans: open('/plans'),
    plan: open('/workspaces/ws_1/plan'),
    'plan-confirmed': choosePlan,
    'plan-changed': changePlan,
    'token-new': open('/tokens/new'),
    'token-secret': makeToken,
    'token-revoke': revokeToken,
    tokens: open('/tokens'),
    people: open('/people'),
    'people-end': open('/people/end?subject=root'),
  }
  return Object.entries(scenes).map(([name, show]) => ({ name, as: 'administrator' as const, show }))
}
