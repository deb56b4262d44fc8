import { beforeEach, expect, test } from 'vitest'
import { RefusalLog, type ReportedRefusal } from '../../../src/keys/usage/refusal-log.ts'

let omitted: number
let log: RefusalLog
beforeEach(() => {
  omitted = 0
  log = new RefusalLog({ inc: () => void omitted++ })
})

function refuse(workspaceId: string, nowMs: number, requestId = 'request'): void {
  log.record(workspaceId, nowMs, () => refusalAt(nowMs, requestId))
}

const refusalAt = (at: number, requestId: string): ReportedRefusal => ({
  at,
  keyId: 'key_1',
  route: 'files',
  code: 'scope_missing',
  reason: 'scope_missing',
  requestId,
  address: '192.0.2.0/24',
})

test('each refusal is taken once', () => {
  refuse('ws_1', 0)
  expect(log.take(10)).toEqual({ refusals: [refusalAt(0, 'request')], omitted: [] })
  expect(log.take(10)).toEqual({ refusals: [], omitted: [] })
  expect(log.size).toBe(0)
})

test('of one workspace, 50 refusals a second are noted, and the number of the others', () => {
  for (let index = 0; index < 70; index++) refuse('ws_1', 500)
  refuse('ws_2', 500)
  refuse('ws_1', 1_000)
  const { refusals, omitted: left } = log.take(1_000)
  expect(refusals.map(({ at }) => at)).toEqual([...Array.from({ length: 50 }, () => 500), 1_000, 500])
  expect(left).toEqual([{ workspaceId: 'ws_1', count: 20 }])
  expect(omitted).toBe(20)
})

test('a report in the middle of a second does not raise its limit', () => {
  for (let index = 0; index < 50; index++) refuse('ws_1', 100)
  log.take(1_000)
  refuse('ws_1', 900)
  expect(log.take(1_000)).toEqual({ refusals: [], omitted: [{ workspaceId: 'ws_1', count: 1 }] })
  expect(log.take(1_000)).toEqual({ refusals: [], omitted: [] })
})

test('the refusals of further workspaces wait once there are enough for a report', () => {
  for (const workspace of ['ws_1', 'ws_2', 'ws_3']) {
    for (let index = 0; index < 50; index++) refuse(workspace, 0, workspace)
  }
  const taken = [100, 1, 1].map(count => new Set(log.take(count).refusals.map(({ requestId }) => requestId)))
  expect(taken).toEqual([new Set(['ws_1', 'ws_2']), new Set(['ws_3']), new Set()])
})

test('of one workspace, the latest 200 wait', () => {
  for (let index = 0; index < 250; index++) refuse('ws_1', index * 1_000, String(index))
  // And the number of those that were left out.
  expect(log.size).toBe(200 + 1)
  const { refusals, omitted: left } = log.take(1_000)
  expect(refusals.map(({ requestId }) => requestId)).toEqual(
    Array.from({ length: 200 }, (_, index) => String(index + 50)),
  )
  expect(left).toEqual([{ workspaceId: 'ws_1', count: 50 }])
})

test('refusals of any number of workspaces take bounded memory', () => {
  for (let index = 0; index < 20_000; index++) refuse(`ws_${index}`, 0)
  expect(log.size).toBe(6_000)
  expect(omitted).toBe(15_000)
  refuse('ws_5000', 0)
  expect(log.take(0).omitted[0]).toEqual({ workspaceId: 'ws_5000', count: 2 })
})
