import type { FastifyInstance } from 'fastify'
import type { Config } from '../config/schema/schema.ts'
import { type Clock, systemClock } from '../domain/clock.ts'
import { type DenialReason, denialRow } from '../domain/denial.ts'
import { hasDemoPlans, nearLimits, type PlanName } from './demo-plans.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** Hours are kept for so long. */
const DAYS = 14
/** The console accepts counts of 13 days, so it gets the first half while its clock is in the middle. */
const MIDDLE = 7
/** With each key, so that what is invented is not taken for real. */
const DESCRIPTION = 'Made up for the demo'
/** Addresses for documentation (RFC 5737, RFC 3849). */
const CALLER = '192.0.2.10'
const FINDER = '198.51.100.7'
const CLIENTS = ['203.0.113.0/24', '198.51.100.0/24', '2001:db8:12::/48'] as const

/** Times are in days before the start of the demo. The order is that of time. */
const KEYS = {
  forgotten: { issued: 130, name: 'Old integration', expiresInDays: 366 },
  website: { issued: 96, name: 'Website', expiresInDays: 366 },
  mobile: { issued: 60.2, name: 'Mobile app', expiresInDays: 180 },
  build: { issued: 40.4, name: 'Build server', expiresInDays: 90 },
  recovery: { issued: 33, name: 'Disaster recovery', expiresInDays: 366 },
  archive: { issued: 30.3, name: 'Contract archive', expiresInDays: 366, workspace: 'second' },
  nightly: { issued: 13.8, name: 'Nightly export', expiresInDays: 19 },
  loadTest: { issued: 13.6, name: 'Load test', expiresInDays: 7 },
  partner: { issued: 12.4, name: 'Partner Northwind', expiresInDays: 90, scopes: 'one' },
  laptop: { issued: 11.7, name: 'Contractor laptop', expiresInDays: 90 },
  workshop: { issued: 10.5, name: 'Workshop slides', expiresInDays: 30 },
  onCall: { issued: 9.2, name: 'On-call runbook', expiresInDays: 90 },
} as const satisfies Record<string, SampleKey>

interface SampleKey {
  readonly issued: number
  readonly name: string
  readonly expiresInDays: number
  readonly workspace?: 'second'
  readonly scopes?: 'one'
}
/** `newBuild` replaces `build`. */
type KeyName = keyof typeof KEYS | 'newBuild'

/** From 0 to 1, by hour and day of the week in UTC. */
const RHYTHMS = {
  always: (hour: number, day: number) => (0.2 + 0.8 * daylight(hour)) * (isWeekend(day) ? 0.5 : 1),
  office: (hour: number, day: number) => (isWeekend(day) ? 0 : Math.max(0, daylight(hour) - 0.3)),
  night: (hour: number) => (hour === 2 ? 1 : 0),
} as const

/** Requests that were served, at most so many in an hour. */
const SERVED: readonly (readonly [KeyName, number, keyof typeof RHYTHMS, from: number, until: number])[] = [
  ['website', 840, 'always', DAYS, 0],
  ['mobile', 520, 'always', DAYS, 0],
  ['archive', 60, 'office', DAYS, 0],
  ['build', 190, 'office', DAYS, 4.6],
  ['newBuild', 190, 'office', 4.9, 0],
  ['nightly', 900, 'night', 13.7, 0],
  ['loadTest', 2400, 'night', 13.5, 9],
  ['partner', 45, 'always', 12.3, 0],
  ['laptop', 30, 'office', 11.6, 6],
  ['workshop', 12, 'office', 10.4, 1.6],
  ['workshop', 700, 'always', 1.62, 1.5],
  ['onCall', 5, 'always', 9.1, 1],
]

/** Requests that were rejected: how many, from when on, how many minutes apart. Fewer than a workspace keeps. */
const REJECTED: readonly (readonly [KeyName, DenialReason, number, from: number, minutes: number])[] = [
  ['website', 'upstream_timeout', 28, 9.4, 2],
  ['partner', 'other_workspace', 9, 6.7, 7],
  ['loadTest', 'key_expired', 12, 6.2, 35],
  ['laptop', 'key_revoked', 8, 5.6, 50],
  ['partner', 'scope_missing', 11, 5.1, 90],
  ['build', 'key_expired', 14, 3.8, 60],
  ['website', 'upstream_timeout', 31, 2.3, 1.5],
  ['workshop', 'key_revoked', 26, 1.49, 4],
  ['mobile', 'rate_limited', 24, 0.7, 1],
  ['onCall', 'key_suspended', 5, 0.6, 20],
  ['partner', 'address_not_allowed', 6, 0.2, 25],
]

/** The system's clock, set back while the history is made. */
export class HistoryClock implements Clock {
  #behindMs = 0

  wallMs(): number {
    return systemClock.wallMs() - this.#behindMs
  }

  monotonicMs(): number {
    return systemClock.monotonicMs()
  }

  setBack(days: number): void {
    this.#behindMs = days * DAY_MS
  }
}

interface HistoryParts {
  readonly config: Config
  readonly clock: HistoryClock
  /** Most happens in the first. */
  readonly workspaces: readonly [first: string, second: string]
  /** Gets the events of the first workspace. */
  readonly webhookUrl: string
  /** Of a console that is not started: nothing else happens while its clock is set back. */
  readonly app: FastifyInstance
  readonly internal: FastifyInstance
}

/**
 * Makes up keys and two weeks of changes and requests, so that every page of the demo shows something: the same each time but
 * for ids and secrets. All goes through the calls of the console, at the times at which it is said to have happened.
 */
export async function makeHistory(parts: HistoryParts): Promise<void> {
  const { clock } = parts
  const story = new Story(parts)
  try {
    for (const { at, happens } of stepsOf(story, parts).toSorted((a, b) => b.at - a.at)) {
      clock.setBack(at)
      await happens()
    }
  } finally {
    clock.setBack(0)
  }
}

interface Step {
  /** In days before now. */
  readonly at: number
  readonly happens: () => Promise<unknown>
}

function stepsOf(story: Story, { workspaces: [first, second], config, webhookUrl }: HistoryParts): Step[] {
  const scopes = Object.keys(config.scopes)
  // `Object.entries` forgets the type of a closed record's keys.
  const issues = (Object.entries(KEYS) as [KeyName, SampleKey][]).map(([key, { issued, ...sample }]) => {
    const chosen = sample.scopes === undefined ? scopes : scopes.slice(0, 1)
    const workspace = sample.workspace === undefined ? first : second
    const { name, expiresInDays } = sample
    const body = { name, expiresInDays, scopes: chosen, description: DESCRIPTION }
    return { at: issued, happens: () => story.issue(key, `/workspaces/${workspace}/keys`, body) }
  })
  const pipeline = { name: 'Sample deploy pipeline', permissions: ['keys:write'], expiresInDays: 90 }
  const desk = {
    name: 'Sample support desk',
    permissions: ['keys:read'],
    workspaces: [first],
    expiresInDays: 30,
  }
  const networks = { allowedCidrs: [CLIENTS[0]] }
  const found = 'https://git.example/workshop/slides/blob/main/setup.sh#L12'
  const webhook = `/workspaces/${first}/webhook`
  const receives = [
    { at: 0.04, happens: () => story.call('POST', webhook, { url: webhookUrl }) },
    { at: 0.03, happens: () => story.call('POST', `${webhook}/test`) },
  ]
  const plan = (workspace: string, name: PlanName) =>
    story.call('PUT', `/workspaces/${workspace}/plan`, { plan: name })
  const plans = [
    { at: 31, happens: () => plan(first, 'team') },
    { at: 29, happens: () => plan(second, 'starter') },
  ]
  return [
    ...issues,
    ...(hasDemoPlans(config) ? plans : []),
    { at: 34, happens: () => story.call('POST', '/tokens', desk) },
    { at: 32, happens: () => story.actAs(pipeline) },
    { at: MIDDLE, happens: () => story.report(DAYS, MIDDLE) },
    { at: 6, happens: () => story.change('laptop', 'revoke') },
    { at: 4.95, happens: () => story.rotate('build', 'newBuild') },
    {
      at: 1.5,
      happens: () =>
        config.leaks.enabled ? story.reportLeak('workshop', found) : story.change('workshop', 'revoke'),
    },
    { at: 1, happens: () => story.change('onCall', 'suspend') },
    { at: 0.3, happens: () => story.call('PATCH', story.path('partner'), networks) },
    ...(config.webhooks.workspaces.enabled ? receives : []),
    { at: 0, happens: () => story.report(MIDDLE, 0) },
  ]
}

interface Issued {
  readonly id: string
  readonly secret: string
}

/** What happens, by the calls of the console. */
class Story {
  readonly #parts: HistoryParts
  readonly #nowMs: number
  readonly #keys = new Map<KeyName, Issued>()
  #token: string
  #reports = 0

  constructor(parts: HistoryParts) {
    this.#parts = parts
    this.#nowMs = parts.clock.wallMs()
    this.#token = parts.config.console.adminToken?.[0] ?? ''
  }

  path(key: KeyName): string {
    return `/keys/${this.#find(key).id}`
  }

  async issue(key: KeyName, path: string, body?: object): Promise<void> {
    // Our own console, in this process: the tests of the admin API check the form of this response.
    const issued = (await this.call('POST', path, body)) as { key: { id: string }; secret: string }
    this.#keys.set(key, { id: issued.key.id, secret: issued.secret })
  }

  rotate(key: KeyName, successor: KeyName): Promise<void> {
    return this.issue(successor, `${this.path(key)}/rotate`, {})
  }

  change(key: KeyName, change: 'revoke' | 'suspend'): Promise<unknown> {
    return this.call('POST', `${this.path(key)}/${change}`)
  }

  call(method: 'POST' | 'PATCH' | 'PUT', path: string, body?: object): Promise<unknown> {
    return send(this.#parts.app, { method, url: `/admin/v1${path}`, token: this.#token, body })
  }

  /** What follows is done with a token of its own. */
  async actAs(token: object): Promise<void> {
    const made = (await this.call('POST', '/tokens', token)) as { secret: string }
    this.#token = made.secret
  }

  reportLeak(key: KeyName, url: string): Promise<unknown> {
    const body = { token: this.#find(key).secret, url }
    return send(this.#parts.app, { method: 'POST', url: '/leaks/report', body, address: FINDER })
  }

  /** The requests of a part of the days, as a gateway reports them. */
  async report(from: number, until: number): Promise<void> {
    const { internal, config } = this.#parts
    const [token = ''] = config.keyService.token ?? []
    const routes = config.routes.map(({ name }) => name)
    const nowMs = this.#nowMs
    const isWithin = ({ at }: { readonly at: number }) =>
      at >= nowMs - from * DAY_MS && at < nowMs - until * DAY_MS
    const named = <Entry extends Sample>({ key, route, ...entry }: Entry) => {
      return { ...entry, keyId: this.#find(key).id, route: routes[Math.max(0, routes.length + route)] ?? '' }
    }
    const rejected = rejectedRequests(nowMs).filter(isWithin)
    const counts = [
      ...servedRequests(nowMs).filter(isWithin),
      ...rejected.map(({ key, route, at, code }) => ({ key, route, at, code, count: 1 })),
    ]
    this.#reports++
    await send(internal, {
      method: 'POST',
      url: '/internal/v1/usage',
      token,
      body: {
        gateway: 'sample-history',
        sequence: this.#reports,
        used: until === 0 ? this.#lastUses() : {},
        counts: counts
          .map(named)
          .map(({ at, ...count }) => ({ ...count, minute: Math.floor(at / MINUTE_MS) })),
        refusals: rejected.map(named),
        limits:
          until === 0 && hasDemoPlans(config)
            ? nearLimits(this.#find('archive').id, this.#parts.workspaces[1], nowMs)
            : [],
      },
    })
  }

  /** Within the last hour with a request. */
  #lastUses(): Record<string, number> {
    const last = new Map<KeyName, number>([['forgotten', this.#nowMs - 97 * DAY_MS]])
    for (const [index, { key, at }] of servedRequests(this.#nowMs).entries()) {
      last.set(
        key,
        Math.max(last.get(key) ?? 0, Math.min(at + 0.9 * HOUR_MS, this.#nowMs - 20_000 * (index % 7))),
      )
    }
    return Object.fromEntries([...last].map(([key, ms]) => [this.#find(key).id, Math.round(ms)]))
  }

  #find(key: KeyName): Issued {
    const found = this.#keys.get(key)
    if (found === undefined) throw new Error(`The history of the demo has no key ${key} yet`)
    return found
  }
}

interface Call {
  readonly method: 'POST' | 'PATCH' | 'PUT'
  readonly url: string
  readonly token?: string
  readonly address?: string
  readonly body?: object | undefined
}

/** @returns the response, as JSON @throws if the console rejects it */
async function send(app: FastifyInstance, call: Call): Promise<unknown> {
  const { method, url, token = '', address = CALLER, body } = call
  const response = await app.inject({
    method,
    url,
    remoteAddress: address,
    headers: { authorization: `Bearer ${token}`, 'if-match': '*' },
    ...(body === undefined ? {} : { payload: body }),
  })
  const { statusCode, body: text } = response
  if (statusCode >= 300 || text.includes('"refused"')) {
    throw new Error(`The demo's history is not complete: ${url} was answered ${statusCode} ${text}`)
  }
  return response.json()
}

/** The key and, counted from the last one, the route. */
interface Sample {
  readonly key: KeyName
  readonly route: number
  readonly at: number
}

interface Counted extends Sample {
  readonly code: string
  readonly count: number
}

/** In whole hours, with less in the present one. */
function servedRequests(nowMs: number): Counted[] {
  const hours = Array.from({ length: DAYS * 24 }, (_, ago) => (Math.floor(nowMs / HOUR_MS) - ago) * HOUR_MS)
  return SERVED.flatMap(([key, most, rhythm, from, until], row) =>
    hours.flatMap((at, ago) => {
      if (at < nowMs - from * DAY_MS || at >= nowMs - until * DAY_MS) return []
      const time = new Date(at)
      const share =
        RHYTHMS[rhythm](time.getUTCHours(), time.getUTCDay()) * Math.min(1, (nowMs - at) / HOUR_MS)
      const count = Math.round(
        most * share * (0.85 + 0.15 * Math.sin(ago * 2.4 + row) + 0.1 * Math.sin(ago * 7.1)),
      )
      const files = Math.ceil(count * 0.7)
      const of = (route: number, requests: number) =>
        requests > 0 ? inItsMinutes({ key, route, at, code: 'ok', count: requests }, nowMs) : []
      return [...of(-1, files), ...of(-2, count - files)]
    }),
  )
}

/** The requests of one of the last two hours at some of its minutes, for the chart of an hour; the gateway of older ones reported late. */
function inItsMinutes(hour: Counted, nowMs: number): Counted[] {
  const minutes = Array.from({ length: 12 }, (_, index) => hour.at + (5 * index + 1) * MINUTE_MS)
  const past = minutes.filter(at => at <= nowMs)
  if (hour.at < nowMs - 2 * HOUR_MS || past.length === 0) return [hour]
  const until = (index: number) => {
    if (index === past.length) return hour.count
    return Math.round((hour.count * (index + 0.3 * Math.sin(2 * index))) / past.length)
  }
  return past
    .map((at, index) => ({ ...hour, at, count: until(index + 1) - until(index) }))
    .filter(({ count }) => count > 0)
}

interface SampleRefusal extends Sample {
  readonly code: string
  readonly reason: DenialReason
  readonly requestId: string
  readonly address: string
}

function rejectedRequests(nowMs: number): SampleRefusal[] {
  return REJECTED.flatMap(([key, reason, times, from, minutes], row) =>
    Array.from({ length: times }, (_, index) => ({
      key,
      reason,
      route: -1,
      code: denialRow(reason).code,
      at: Math.round(nowMs - from * DAY_MS + index * minutes * MINUTE_MS),
      requestId: `made-up-${row}-${index}`,
      address: CLIENTS[row % CLIENTS.length] ?? '',
    })),
  )
}

/** From 0 at night to 1 in the early afternoon. */
function daylight(hour: number): number {
  return (1 - Math.cos(((hour - 1.5) / 12) * Math.PI)) / 2
}

function isWeekend(day: number): boolean {
  return day === 0 || day === 6
}
