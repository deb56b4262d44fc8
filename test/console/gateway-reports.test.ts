import { expect, onTestFinished, test } from 'vitest'
import { type DatedReport, shareReports } from '../../src/console/announcing/gateway-rows.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository } from '../support/repository.ts'
import { NOW_MS } from '../support/stored-keys.ts'

const HOUR_MS = 3_600_000
const [DIGEST, OTHER] = ['a'.repeat(64), 'b'.repeat(64)]
const gateway = (id: string, more: Partial<DatedReport> = {}) => ({
  ...{
    id,
    name: `name of ${id}`,
    region: 'default',
    isConnected: true,
    isLeaving: false,
    confirmed: [],
    ...more,
  },
})
const changes = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ digest: String(index).padStart(64, '0'), version: 2 }))

async function started() {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  let nowMs = NOW_MS
  const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
  const repository = createRepository(database, clock)
  const statuses = (version: number, digest = DIGEST) => repository.listGatewayStatuses({ digest, version })
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { database, repository, statuses, pass }
}

test('a gateway is known with what it reported last, and gone once it leaves', async () => {
  const { repository, statuses, pass } = await started()
  await repository.recordGateway(gateway('g1', { isConnected: false }))
  pass(10)
  await repository.recordGateway(gateway('g1', { name: 'renamed', region: 'eu' }))
  const seen = { name: 'renamed', region: 'eu', seenAtMs: NOW_MS + 10, confirmed: false }
  expect(await statuses(2)).toEqual([{ ...seen, disconnectedAtMs: NOW_MS }])
  pass(10)
  await repository.recordGateway(gateway('g1', { name: 'renamed', region: 'eu', isConnected: false }))
  expect(await statuses(2)).toEqual([{ ...seen, seenAtMs: NOW_MS + 20, disconnectedAtMs: NOW_MS + 20 }])
  await repository.recordGateway(gateway('g1', { isLeaving: true }))
  expect(await statuses(2)).toEqual([])
})

test('a gateway has applied the versions that it confirmed and all before, of that key alone', async () => {
  const { repository, statuses } = await started()
  await repository.recordGateway(gateway('g1', { confirmed: [{ digest: DIGEST, version: 3 }] }))
  await repository.recordGateway(gateway('g2', { confirmed: [{ digest: DIGEST, version: 2 }] }))
  const confirmed = async (version: number, digest = DIGEST) =>
    (await statuses(version, digest)).map(({ name, confirmed: has }) => [name, has])
  const both = (first: boolean, second: boolean) => [
    ['name of g1', first],
    ['name of g2', second],
  ]
  expect(await confirmed(2)).toEqual(both(true, true))
  expect(await confirmed(3)).toEqual(both(true, false))
  expect(await confirmed(4)).toEqual(both(false, false))
  expect(await confirmed(2, OTHER)).toEqual(both(false, false))
})

test('gateways are counted as long as they reported since then', async () => {
  const { repository, pass } = await started()
  await repository.recordGateway(gateway('g1'))
  pass(1)
  await repository.recordGateway(gateway('g2'))
  expect(await repository.countGateways(NOW_MS)).toBe(2)
  expect(await repository.countGateways(NOW_MS + 1)).toBe(1)
  expect(await repository.countGateways(NOW_MS + 2)).toBe(0)
})

test('gateways and confirmations are deleted after an hour, however many they are', async () => {
  const { database, repository, pass } = await started()
  await repository.recordGateway(gateway('g1', { confirmed: changes(1_000) }))
  await repository.recordGateway(gateway('g2', { confirmed: changes(1) }))
  const rows = async () => {
    const confirmations = await database.reader.selectFrom('confirmations').select('digest').execute()
    const gateways = await database.reader.selectFrom('gateways').select('id').execute()
    return [gateways.length, confirmations.length]
  }
  expect(await rows()).toEqual([2, 1_001])
  pass(HOUR_MS)
  await repository.recordGateway(gateway('g2', { confirmed: [{ digest: OTHER, version: 2 }] }))
  await repository.purge()
  expect(await rows()).toEqual([2, 1_002])
  pass(1)
  await repository.purge()
  expect(await rows()).toEqual([1, 1])
})

test('reports that arrive together are one transaction, but for those of one gateway, and for more than one can hold', async () => {
  const batches: string[][] = []
  const { promise: first, resolve } = Promise.withResolvers<void>()
  const report = shareReports(
    async reports => {
      batches.push(reports.map(({ id, atMs, confirmed }) => `${id} ${atMs} ${confirmed.length}`))
      if (batches.length === 1) await first
    },
    () => 7,
  )
  const reports = [report(gateway('g0'))]
  const add = (id: string, count = 0) => void reports.push(report(gateway(id, { confirmed: changes(count) })))
  await Promise.resolve()
  for (const id of ['g1', 'g2', 'g1']) add(id)
  add('g3', 5_000)
  add('g4', 1)
  for (let count = 0; count < 1_000; count++) add(`h${count}`)
  resolve()
  await Promise.all(reports)
  expect(batches[0]).toEqual(['g0 7 0'])
  expect(batches.slice(1, 4)).toEqual([['g1 7 0', 'g2 7 0'], ['g1 7 0', 'g3 7 5000'], expect.any(Array)])
  expect(batches.slice(3).map(batch => batch.length)).toEqual([1_000, 1])
  expect(batches[3]?.[0]).toBe('g4 7 1')
})
