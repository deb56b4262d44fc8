import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type RunningConsole, startConsole } from '../support/console.ts'
import { readMessage } from '../support/messages.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { until } from '../support/until.ts'

const START_MS = Date.parse('2026-11-20T09:00:00Z')
const HOUR_MS = 3_600_000
const KEYS = '/admin/v1/workspaces/ws_1/keys'

/** A model of a key, written from docs/concepts.md alone. */
interface Believed {
  readonly id: string
  expiresAtMs: number
  revoked: boolean
  replacedBy: string | null
  version: number
}

type Step =
  | { readonly do: 'issue'; readonly lifeHours: number }
  | { readonly do: 'rotate'; readonly key: number; readonly overlapHours: number; readonly lifeHours: number }
  | { readonly do: 'revoke'; readonly key: number }
  | { readonly do: 'wait'; readonly hours: number }

const hours = fc.integer({ min: 1, max: 50 })
const key = fc.nat({ max: 20 })
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant('issue' as const), lifeHours: hours }),
    fc.record({
      do: fc.constant('rotate' as const),
      key,
      overlapHours: fc.integer({ min: 0, max: 50 }),
      lifeHours: hours,
    }),
    fc.record({ do: fc.constant('revoke' as const), key }),
    fc.record({ do: fc.constant('wait' as const), hours: fc.integer({ min: 1, max: 20 }) }),
  ),
  { minLength: 1, maxLength: 25 },
)

/** @param runs how many lives are led */
export function describeKeyLife(database: string, freshUrl: () => Promise<string>, runs: number): void {
  test(`in ${database}, any sequence of operations leaves each key in the state that docs/concepts.md describes`, async () => {
    await fc.assert(
      fc.asyncProperty(steps, async sequence => {
        const time = { nowMs: START_MS }
        const clock = { wallMs: () => time.nowMs, monotonicMs: () => time.nowMs }
        const announcer = new ScriptedAnnouncer()
        const running = await startConsole({ databaseUrl: await freshUrl(), parts: { clock, announcer } })
        const keys: Believed[] = []
        const audited: string[] = []
        for (const step of sequence) await take(step, running, time, keys, audited)
        await expectAsBelieved(running, time.nowMs, keys, audited, announcer)
        await running.stop()
      }),
      { numRuns: runs },
    )
  })
}

function stateOf({ revoked, expiresAtMs, replacedBy }: Believed, nowMs: number): string {
  if (revoked) return 'revoked'
  if (nowMs >= expiresAtMs) return 'expired'
  return replacedBy === null ? 'active' : 'retiring'
}

async function take(
  step: Step,
  { send }: RunningConsole,
  time: { nowMs: number },
  keys: Believed[],
  audited: string[],
): Promise<void> {
  if (step.do === 'wait') {
    time.nowMs += step.hours * HOUR_MS
    return
  }
  const fresh = { revoked: false, replacedBy: null, version: 1 }
  if (step.do === 'issue') {
    const body = { name: 'a', scopes: ['files:read'], expiresInDays: step.lifeHours / 24 }
    const answer = await send('POST', KEYS, body)
    expect(answer.status).toBe(201)
    keys.push({ ...fresh, id: answer.body.key.id, expiresAtMs: time.nowMs + step.lifeHours * HOUR_MS })
    audited.push(`key.issued ${answer.body.key.id}`)
    return
  }
  const subject = keys[step.key % Math.max(1, keys.length)]
  if (subject === undefined) return
  const state = stateOf(subject, time.nowMs)
  if (step.do === 'revoke') {
    expect((await send('POST', `/admin/v1/keys/${subject.id}/revoke`)).status).toBe(200)
    if (state === 'revoked' || state === 'expired') return
    Object.assign(subject, { revoked: true, version: subject.version + 1 })
    audited.push(`key.revoked ${subject.id}`)
    return
  }
  const body = { overlapSeconds: step.overlapHours * 3600, expiresInDays: step.lifeHours / 24 }
  const answer = await send('POST', `/admin/v1/keys/${subject.id}/rotate`, body)
  expect(answer.status).toBe(state === 'active' ? 201 : 409)
  if (state !== 'active') return
  const { id } = answer.body.key
  keys.push({ ...fresh, id, expiresAtMs: time.nowMs + step.lifeHours * HOUR_MS })
  subject.expiresAtMs = Math.min(subject.expiresAtMs, time.nowMs + step.overlapHours * HOUR_MS)
  const revoked = step.overlapHours === 0
  Object.assign(subject, { revoked, replacedBy: id, version: subject.version + 1 })
  audited.push(`key.rotated ${subject.id}`)
  if (revoked) audited.push(`key.revoked ${subject.id}`)
}

async function expectAsBelieved(
  { send }: RunningConsole,
  nowMs: number,
  keys: readonly Believed[],
  audited: readonly string[],
  announcer: ScriptedAnnouncer,
): Promise<void> {
  const listed = (await send('GET', `${KEYS}?limit=200`)).body.keys
  const believed = keys.map(key => ({
    id: key.id,
    state: stateOf(key, nowMs),
    expiresAt: new Date(key.expiresAtMs).toISOString(),
    replacedBy: key.replacedBy,
    version: key.version,
  }))
  const seen = listed.map((each: Record<string, unknown>) => {
    const { id, state, expiresAt, replacedBy, version } = each
    return { id, state, expiresAt, replacedBy, version }
  })
  expect(seen).toEqual(believed.toReversed())
  const { entries } = (await send('GET', '/admin/v1/workspaces/ws_1/audit?limit=200')).body
  const done = entries.map((entry: { action: string; keyId: string }) => `${entry.action} ${entry.keyId}`)
  expect(done).toEqual(audited.toReversed())
  // Each version of each key is published, and the last one written is stored.
  const changes = () => announcer.published.map(readMessage).filter(message => message?.kind === 'change')
  const versions = keys.reduce((sum, { version }) => sum + version, 0)
  await until('every change is published', () => changes().length >= versions)
  const written = new Map(announcer.puts.map(({ record }) => [record.id, record.version]))
  expect(written).toEqual(new Map(keys.map(({ id, version }) => [id, version])))
}
