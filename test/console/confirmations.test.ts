import { describe, expect, test } from 'vitest'
import { createDisabledAnnouncer, createInProcessAnnouncer } from '../../src/console/announcing/announcer.ts'
import { summarizeConfirmations } from '../../src/console/announcing/confirmations.ts'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { type RunningConsole, startConsole } from '../support/console.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { readMessage } from '../support/messages.ts'
import { NOW_MS } from '../support/stored-keys.ts'
import { until } from '../support/until.ts'

/** At most so long it waits between two looks at the gateways. */
const POLL_INTERVAL_MS = 25

describe('a live gateway', () => {
  const times = { seenAtMs: NOW_MS, disconnectedAtMs: NOW_MS - 60_000 }
  const gateway = { name: 'pod-1', region: 'default', ...times, confirmed: false }
  const summaryOf = (changes: Partial<typeof gateway>) =>
    summarizeConfirmations([{ ...gateway, ...changes }], NOW_MS - 10, NOW_MS)

  test('counts as confirmed once it has confirmed', () => {
    expect(summaryOf({ confirmed: true })).toEqual({ known: 1, confirmed: 1, verifying: 0, silent: [] })
  })

  test('counts as verifying if it was disconnected after the commit', () => {
    const verifying = { known: 1, confirmed: 0, verifying: 1, silent: [] }
    expect(summaryOf({ disconnectedAtMs: NOW_MS - 10 })).toEqual(verifying)
  })

  test('counts as silent if it was disconnected only before the commit, or never', () => {
    const silent = [{ name: 'pod-1', lastSeenAtMs: NOW_MS }]
    expect(summaryOf({ disconnectedAtMs: NOW_MS - 11 })).toEqual({
      known: 1,
      confirmed: 0,
      verifying: 0,
      silent,
    })
  })

  test('is listed until it has not reported for a minute', () => {
    expect(summaryOf({ seenAtMs: NOW_MS - REVOCATION_TIMING.gatewayExpiryMs + 1 }).silent).toHaveLength(1)
    const noneKnown = { known: 0, confirmed: 0, verifying: 0, silent: [] }
    expect(summaryOf({ seenAtMs: NOW_MS - REVOCATION_TIMING.gatewayExpiryMs })).toEqual(noneKnown)
  })
})

describe('the response to a revocation', () => {
  /** Each stands in for a gateway: it tells of itself, and may confirm. */
  async function report(running: RunningConsole, id: string, more: object = {}) {
    const body = {
      gateway: { id, name: `pod-${id}` },
      connected: true,
      leaving: false,
      confirmed: [],
      ...more,
    }
    expect((await running.send('POST', '/internal/v1/confirmations', body)).status).toBe(200)
  }

  async function startWithKey(
    onChange: (digest: string, version: number) => void,
    parts: { timers?: ManualTimers } = {},
  ) {
    const announcer = createInProcessAnnouncer(text => {
      const message = readMessage(text)
      if (message?.kind === 'change' && message.version > 1) onChange(message.digest, message.version)
    })
    const running = await startConsole({ parts: { announcer, ...parts } })
    const body = { name: 'k', scopes: ['files:read'] }
    const issued = await running.send('POST', '/admin/v1/workspaces/ws_1/keys', body)
    return { running, id: issued.body.key.id }
  }

  /** So that a commit is of another millisecond than what was before it. */
  const later = () => {
    const nowMs = Date.now()
    return until('the clock has moved on', () => Date.now() > nowMs)
  }

  /** A revocation that waits, in time that passes when a test says so. */
  async function startWaiting() {
    const timers = new ManualTimers()
    const changes: { digest: string; version: number }[] = []
    const { running, id } = await startWithKey((digest, version) => changes.push({ digest, version }), {
      timers,
    })
    const begin = async (path = `keys/${id}/revoke`, request?: object) => {
      await later()
      let isAnswered = false
      const answer = running.send('POST', `/admin/v1/${path}?wait=1`, request).finally(() => {
        isAnswered = true
      })
      const asked = () =>
        until('the gateways were looked at, and none or not all had confirmed', () => {
          const { nextDelayMs } = timers
          return isAnswered || (nextDelayMs !== null && nextDelayMs > 0 && nextDelayMs <= POLL_INTERVAL_MS)
        })
      await asked()
      const response = async () => {
        await until('it is answered', async () => {
          await asked()
          if (!isAnswered) timers.advance(POLL_INTERVAL_MS)
          return isAnswered
        })
        return await answer
      }
      return {
        isAnswered: () => isAnswered,
        response,
        answer: async () => (await response()).body.gateways,
      }
    }
    return { running, id, timers, changes, begin }
  }

  test('has the times of commit and announcement, and the confirmation of every gateway', async () => {
    const { running, changes, begin } = await startWaiting()
    for (const gateway of ['1', '2']) await report(running, gateway)
    const revocation = await begin()
    for (const gateway of ['1', '2']) await report(running, gateway, { confirmed: changes })
    const { body } = await revocation.response()
    expect(body).toMatchObject({
      announced: true,
      gateways: { known: 2, confirmed: 2, verifying: 0, silent: [] },
    })
    const [revokedAt, committedAt, announcedAt] = [
      body.key.revokedAt,
      body.committedAt,
      body.announcedAt,
    ].map(instant => Date.parse(String(instant)))
    expect(committedAt).toBeGreaterThanOrEqual(revokedAt ?? Number.NaN)
    expect(announcedAt).toBeGreaterThanOrEqual(committedAt ?? Number.NaN)
  })

  test('names silent gateways after one second, not before', async () => {
    const { running, timers, changes, begin } = await startWaiting()
    for (const gateway of ['1', '2']) await report(running, gateway)
    const revocation = await begin()
    await report(running, '1', { confirmed: changes })
    const gateways = await revocation.answer()
    expect(timers.nowMs).toBeGreaterThanOrEqual(1_000)
    const silent = [{ name: 'pod-2' }]
    expect(gateways).toMatchObject({ known: 2, confirmed: 1, verifying: 0, silent })
  })

  test('waits for a gateway that is not known yet, until it has confirmed', async () => {
    const { running, timers, changes, begin } = await startWaiting()
    const revocation = await begin()
    expect(revocation.isAnswered()).toBe(false)
    await report(running, '1', { confirmed: changes })
    const gateways = await revocation.answer()
    expect(gateways).toEqual({ known: 1, confirmed: 1, verifying: 0, silent: [] })
    expect(timers.nowMs).toBeLessThan(1_000)
  })

  test('waits for known gateways also after all keys of the workspace were revoked', async () => {
    const { running, timers, changes, begin } = await startWaiting()
    await report(running, '1')
    const revocation = await begin('workspaces/ws_1/revoke-all')
    expect(revocation.isAnswered()).toBe(false)
    await report(running, '1', { confirmed: changes })
    const gateways = await revocation.answer()
    expect(gateways).toEqual({ known: 1, confirmed: 1, verifying: 0, silent: [] })
    expect(timers.nowMs).toBeLessThan(1_000)
  })

  test('says after a second that no gateway is known', async () => {
    const { timers, begin } = await startWaiting()
    const gateways = await (await begin()).answer()
    expect(gateways).toEqual({ known: 0, confirmed: 0, verifying: 0, silent: [] })
    expect(timers.nowMs).toBeGreaterThanOrEqual(1_000)
  })

  test('waits for a gateway that is disconnected to connect and confirm', async () => {
    const { running, timers, changes, begin } = await startWaiting()
    await report(running, '1', { connected: false })
    const revocation = await begin()
    await report(running, '1', { connected: false })
    expect(revocation.isAnswered()).toBe(false)
    await report(running, '1', { confirmed: changes })
    const gateways = await revocation.answer()
    expect(gateways).toEqual({ known: 1, confirmed: 1, verifying: 0, silent: [] })
    expect(timers.nowMs).toBeLessThan(1_000)
  })

  test('counts a gateway that stays disconnected as one that verifies each key', async () => {
    const { running, timers, begin } = await startWaiting()
    await report(running, '1')
    const revocation = await begin()
    await report(running, '1', { connected: false })
    const gateways = await revocation.answer()
    expect(gateways).toEqual({ known: 1, confirmed: 0, verifying: 1, silent: [] })
    expect(timers.nowMs).toBeGreaterThanOrEqual(1_000)
  })

  test('does not wait for disconnected gateways if the change could not be announced', async () => {
    const announcer = createDisabledAnnouncer()
    const running = await startConsole({ parts: { announcer, timers: new ManualTimers() } })
    const body = { name: 'k', scopes: ['files:read'] }
    const { key } = (await running.send('POST', '/admin/v1/workspaces/ws_1/keys', body)).body
    await running.send('POST', `/admin/v1/keys/${key.id}/revoke`)
    await later()
    await report(running, '1', { connected: false })
    // Its time does not pass: an answer that waited would not come.
    const answer = await running.send('POST', `/admin/v1/keys/${key.id}/revoke?wait=1`)
    const gateways = { known: 1, confirmed: 0, verifying: 1, silent: [] }
    expect(answer.body).toMatchObject({ announced: false, gateways })
  })

  test('does not wait for a gateway that shut down, and not at all without wait=1', async () => {
    const { running, id } = await startWithKey(() => {})
    await report(running, '1')
    await report(running, '2')
    await report(running, '2', { leaving: true })
    await later()
    const gateways = { known: 1, confirmed: 0, silent: [{ name: 'pod-1' }] }
    const { body } = await running.send('POST', `/admin/v1/keys/${id}/revoke`)
    expect(body.gateways).toMatchObject(gateways)
  })

  test('is part of the response to a rotation without overlap, for the old key', async () => {
    const { running, id, changes, begin } = await startWaiting()
    await report(running, '1')
    const rotation = await begin(`keys/${id}/rotate`, { overlapSeconds: 0 })
    await report(running, '1', { confirmed: changes })
    const { status, body } = await rotation.response()
    expect(status).toBe(201)
    const { revokedAt, state } = body.replaced
    expect(state).toBe('revoked')
    expect(body).toMatchObject({ announced: true, gateways: { confirmed: 1, verifying: 0, silent: [] } })
    expect(Date.parse(body.committedAt)).toBeGreaterThanOrEqual(Date.parse(revokedAt))
    expect(Date.parse(body.announcedAt)).toBeGreaterThanOrEqual(Date.parse(body.committedAt))
  })

  test('omits gateways for a rotation with overlap, which revokes no key', async () => {
    const { running, id } = await startWithKey(() => {})
    await report(running, '1')
    const { body } = await running.send('POST', `/admin/v1/keys/${id}/rotate?wait=1`, { overlapSeconds: 1 })
    const nothing = { committedAt: null, announcedAt: null, gateways: null }
    expect(body).toMatchObject({ announced: true, ...nothing, replaced: { state: 'retiring' } })
  })

  test('says of a revocation nothing of gateways once their confirmations are deleted, an hour later', async () => {
    const clock = new ManualClock()
    const { send } = await startConsole({ parts: { clock } })
    const request = { name: 'build server', scopes: ['workspace:read'] }
    const { id } = (await send('POST', '/admin/v1/workspaces/ws_1/keys', request)).body.key
    const revoke = async () => (await send('POST', `/admin/v1/keys/${id}/revoke`)).body.gateways
    await revoke()
    clock.advance(3_600_000)
    expect(await revoke()).toMatchObject({ known: 0 })
    clock.advance(1)
    expect(await revoke()).toBe(null)
  })

  test('is the same for a key that was already revoked, but without the time of announcement', async () => {
    const { running, id } = await startWithKey(() => {})
    const first = await running.send('POST', `/admin/v1/keys/${id}/revoke`)
    const { status, body } = await running.send('POST', `/admin/v1/keys/${id}/revoke?wait=1`)
    expect(status).toBe(200)
    expect(body.key).toEqual(first.body.key)
    expect(body).toMatchObject({ announced: true, announcedAt: null, gateways: { confirmed: 0, silent: [] } })
  })

  test.each(['wait=0', 'wait=', 'wait=1&wait=1', 'w=1'])(
    'is refused for %s, which says nothing',
    async query => {
      const { running, id } = await startWithKey(() => {})
      expect((await running.send('POST', `/admin/v1/keys/${id}/revoke?${query}`)).status).toBe(400)
      expect((await running.send('GET', `/admin/v1/keys/${id}`)).body.key.state).toBe('active')
    },
  )
})

describe('the report of a gateway', () => {
  test.each([
    ['an id with blanks', { gateway: { id: 'a b', name: 'n' } }],
    ['a name of markup', { gateway: { id: 'a', name: '<b>' } }],
    ['half of it', { connected: undefined }],
    ['a version that is no number', { confirmed: [{ digest: 'a'.repeat(64), version: '2' }] }],
    ['no digest', { confirmed: [{ digest: 'a', version: 2 }] }],
    ['more than is taken', { confirmed: Array(1001).fill({ digest: 'a'.repeat(64), version: 2 }) }],
  ])('is refused with %s', async (_, wrong) => {
    const running = await startConsole()
    const body = { gateway: { id: 'a', name: 'n' }, connected: true, leaving: false, confirmed: [], ...wrong }
    expect((await running.send('POST', '/internal/v1/confirmations', body)).status).toBe(400)
  })
})
