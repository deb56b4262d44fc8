import { expect, test } from 'vitest'
import { readChangeProgress } from '../../src/console/keys/operations/change-progress.ts'
import type { OperationSuccess } from '../../src/console/keys/operations/registry.ts'
import { DatabaseUnavailable } from '../../src/console/platform/database/database-unavailable.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

const HOUR_MS = 3_600_000
const key = revoked(someKey())
const SUCCESS: OperationSuccess = {
  kind: 'done',
  ...{ record: key.record, digest: key.digest, replaced: null, secret: null, replayed: false },
  ...{ changed: true, committedAtMs: NOW_MS, announcedAtMs: NOW_MS + 1 },
  announced: [{ region: 'default', announced: true }],
}

const gateway = { name: 'g', region: 'default', disconnectedAtMs: 0, confirmed: true }

/** A registry whose database answers so when it is asked for confirmations. @param laterMs how long after the change */
function registry(answer: () => Promise<never>, laterMs = 0) {
  const nowMs = NOW_MS + laterMs
  const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
  return { clock, timers: new ManualTimers(), gateways: { listGatewayStatuses: answer } }
}

const failing = (error: Error) => registry(() => Promise.reject(error))
const lost = () => new DatabaseUnavailable('timeout', 'no answer')

test.each([false, true])(
  'a change that is committed does not look like a failure if the database then does not say who confirmed it; waiting: %s',
  async mustWait => {
    const cause = new Error('failed', { cause: lost() })
    for (const error of [lost(), cause]) {
      const { announced, announcedAtMs } = SUCCESS
      expect(await readChangeProgress(failing(error), SUCCESS, mustWait)).toEqual({
        ...{ announced, announcedAtMs, committedAtMs: NOW_MS, gateways: null },
      })
    }
  },
)

test('a request that changed nothing fails with the database, and any other error is one', async () => {
  const error = lost()
  const repeated = { ...SUCCESS, changed: false, committedAtMs: null }
  for (const mustWait of [false, true]) {
    await expect(readChangeProgress(failing(error), repeated, mustWait)).rejects.toBe(error)
  }
  const mistake = new Error('no such table')
  await expect(readChangeProgress(failing(mistake), SUCCESS, false)).rejects.toBe(mistake)
})

test('confirmations are read for an hour, for which they are kept', async () => {
  const progressAfter = (laterMs: number) => {
    const { clock, timers } = registry(() => Promise.reject(lost()), laterMs)
    const statuses = [{ ...gateway, seenAtMs: clock.wallMs() }]
    const gateways = { listGatewayStatuses: async () => statuses }
    return readChangeProgress({ clock, timers, gateways }, SUCCESS, true)
  }
  expect((await progressAfter(HOUR_MS)).gateways).toMatchObject({ known: 1, confirmed: 1 })
  expect((await progressAfter(HOUR_MS + 1)).gateways).toBeNull()
})
