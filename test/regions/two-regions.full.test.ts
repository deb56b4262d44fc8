import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { REGION_HEADER } from '../../src/domain/region.ts'
import { CHANGES_CHANNEL, decodeRecord, deriveRecordKey, recordKeyName } from '../../src/domain/wire.ts'
import { type RunningConsole, SIGNING_SECRET, startConsole } from '../support/console.ts'
import { readMessage } from '../support/messages.ts'
import { metricValue } from '../support/metric-value.ts'
import { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'
import { regionAt } from './region-settings.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const recordKeys = [deriveRecordKey(SIGNING_SECRET)]
let eu: RedisServer
let us: RedisServer

beforeEach(async () => {
  eu = await RedisServer.absent()
  us = await RedisServer.absent()
  await Promise.all([eu.revive(), us.revive()])
})
afterEach(() => Promise.all([eu.stop(), us.stop()]))

const start = () => startConsole({ regions: [regionAt('eu', eu.url), regionAt('us', us.url)] })

const regionsAre = (running: RunningConsole, regions: object) =>
  until(`the regions are ${JSON.stringify(regions)}`, async () => {
    const health = await running.health()
    return JSON.stringify(health.regions) === JSON.stringify(regions)
  })

async function issue({ send }: RunningConsole) {
  const { status, body } = await send('POST', KEYS, { name: 'k', scopes: ['workspace:read'] })
  expect(status).toBe(201)
  return { id: body.key.id as string, digest: digestKey(body.secret) }
}

const revoke = ({ send }: RunningConsole, id: string, query = '') =>
  send('POST', `/admin/v1/keys/${id}/revoke${query}`)

/** What gateways of a region receive from now on: versions of changes, and heartbeats as `-`. */
async function listen(redis: RedisServer) {
  const received: string[] = []
  const subscriber = redis.client()
  subscriber.on('message', (_, text: string) => {
    const message = readMessage(text)
    received.push(message?.kind === 'change' ? `${message.digest} ${message.version}` : '-')
  })
  await subscriber.subscribe(CHANGES_CHANNEL)
  return received
}

async function versionIn(redis: RedisServer, digest: string) {
  const decoded = decodeRecord((await redis.client().get(recordKeyName(digest))) ?? '', digest, recordKeys)
  return decoded.ok ? decoded.grant.version : null
}

describe('a console with two regions', () => {
  test('announces a revocation to both, and its answer says so of each', async () => {
    const running = await start()
    await regionsAre(running, { eu: 'ready', us: 'ready' })
    const { id, digest } = await issue(running)
    const received = await Promise.all([listen(eu), listen(us)])
    const { body } = await revoke(running, id)
    const gateways = { known: 0, confirmed: 0, verifying: 0, silent: [] }
    expect(body).toMatchObject({
      announced: true,
      gateways,
      regions: [
        { name: 'eu', announced: true, gateways },
        { name: 'us', announced: true, gateways },
      ],
    })
    for (const redis of [eu, us]) expect(await versionIn(redis, digest)).toBe(2)
    for (const messages of received) {
      await until('the change and a heartbeat arrive', () => {
        return messages.includes(`${digest} 2`) && messages.includes('-')
      })
    }
  })

  test('writes the record that a gateway lacks to the Redis of its region alone, and to each if it names none', async () => {
    const running = await start()
    await regionsAre(running, { eu: 'ready', us: 'ready' })
    const { digest } = await issue(running)
    for (const [headers, expected] of [
      [{ [REGION_HEADER]: 'eu' }, [1, null]],
      [{}, [1, 1]],
      [{ [REGION_HEADER]: 'unknown' }, [1, 1]],
    ] as const) {
      await Promise.all([eu.client().flushall(), us.client().flushall()])
      const { status } = await running.send(
        'POST',
        '/internal/v1/lookups',
        { digests: [digest] },
        { headers },
      )
      expect(status).toBe(200)
      const versions = () => Promise.all([versionIn(eu, digest), versionIn(us, digest)])
      await until(`the records are ${expected}`, async () => String(await versions()) === String(expected))
    }
  })

  test('goes on announcing to one while the other is down, which then gets every change before a heartbeat', async () => {
    const running = await start()
    await regionsAre(running, { eu: 'ready', us: 'ready' })
    const keys = [await issue(running), await issue(running)]
    await us.kill()
    await regionsAre(running, { eu: 'ready', us: 'down' })
    expect((await running.health()).announcer).toBe('degraded')
    expect(await metricValue(running.metrics.regionUp, { region: 'us' })).toBe(0)
    expect(await metricValue(running.metrics.regionUp, { region: 'eu' })).toBe(1)
    const inEu = await listen(eu)
    for (const { id } of keys) {
      const { body } = await revoke(running, id)
      expect(body.announced).toBe(false)
      expect(body.regions.map(({ name, announced }) => [name, announced])).toEqual([
        ['eu', true],
        ['us', false],
      ])
    }
    const heartbeats = () => inEu.filter(message => message === '-').length
    const before = heartbeats()
    await until('heartbeats go on in the other region', () => heartbeats() > before + 2)
    await us.revive()
    const inUs = await listen(us)
    await until('heartbeats resume', () => inUs.includes('-'))
    for (const { digest } of keys) {
      expect(await versionIn(us, digest)).toBe(2)
    }
  })

  test('measures how far a region is behind whose Redis is connected and rejects a change', async () => {
    const running = await start()
    await regionsAre(running, { eu: 'ready', us: 'ready' })
    const { id, digest } = await issue(running)
    await us.client().config('SET', 'maxmemory', '1')
    expect((await revoke(running, id)).body.regions).toMatchObject([
      { name: 'eu', announced: true },
      { name: 'us', announced: false },
    ])
    const ageSeconds = (region: string) => metricValue(running.metrics.regionPendingAge, { region })
    await until('the change that waits is measured', async () => (await ageSeconds('us')) > 0)
    expect(await ageSeconds('eu')).toBe(0)
    expect(await metricValue(running.metrics.regionUp, { region: 'us' })).toBe(0)
    const inUs = await listen(us)
    await us.client().config('SET', 'maxmemory', '0')
    await until('the region gets the change, then heartbeats', () => inUs.at(-1) === '-')
    expect(inUs[0]).toBe(`${digest} 2`)
  })

  test('counts the gateways of each region', async () => {
    const running = await start()
    await regionsAre(running, { eu: 'ready', us: 'ready' })
    const report = async (id: string, region: string, confirmed: object[] = []) => {
      const gateway = { id, name: `pod-${id}`, region }
      const body = { gateway, connected: true, leaving: false, confirmed }
      expect((await running.send('POST', '/internal/v1/confirmations', body)).status).toBe(200)
    }
    for (const [gateway, region] of [
      ['1', 'eu'],
      ['2', 'us'],
      ['3', 'us'],
    ] as const) {
      await report(gateway, region)
    }
    const { id, digest } = await issue(running)
    const received = await listen(us)
    const answer = revoke(running, id, '?wait=1')
    await until('the change arrives', () => received.includes(`${digest} 2`))
    for (const [gateway, region] of [
      ['1', 'eu'],
      ['2', 'us'],
    ] as const) {
      await report(gateway, region, [{ digest, version: 2 }])
    }
    const { gateways, regions } = (await answer).body
    expect(gateways).toMatchObject({ known: 3, confirmed: 2, silent: [{ name: 'pod-3' }] })
    expect(regions).toMatchObject([
      { name: 'eu', announced: true, gateways: { known: 1, confirmed: 1, silent: [] } },
      { name: 'us', announced: true, gateways: { known: 2, confirmed: 1, silent: [{ name: 'pod-3' }] } },
    ])
  })

  test('rewrites the records of one region, or of both if both are there', async () => {
    const running = await start()
    await regionsAre(running, { eu: 'ready', us: 'ready' })
    const { digest } = await issue(running)
    await eu.client().flushall()
    await us.kill()
    await regionsAre(running, { eu: 'ready', us: 'down' })
    const sync = (body: object) => running.send('POST', '/admin/v1/sync', body)
    const failed = await sync({})
    expect([failed.status, failed.text]).toEqual([503, expect.stringContaining('region us')])
    expect((await sync({ region: 'eu' })).body).toEqual({ synced: 1, total: 1 })
    expect(await versionIn(eu, digest)).toBe(1)
    expect((await sync({ region: 'mars' })).status).toBe(400)
  })
})
