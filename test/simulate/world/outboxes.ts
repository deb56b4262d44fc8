import { OtherMark } from '../../../src/console/announcing/mark-rows.ts'
import type { PendingChange, PendingChanges } from '../../../src/console/announcing/outbox-rows.ts'
import type { StoredKey } from '../../../src/domain/key/key-record.ts'
import type { Database, OutboxRow, RegionOutbox } from './database.ts'
import type { Process } from './process.ts'
import type { DatabaseWatcher } from './repository.ts'

/** As in `outbox-rows.ts`. */
const CLAIM_MS = 2_000
/** As in `outbox-rows.ts`, but fewer, so that a new region takes several steps. */
const KEYS_AT_ONCE = 2

const rowKeyOf = ({ digest, version }: { digest: string; version: number }): string => `${digest} ${version}`

/** Adds the changes to the outbox of each registered region. @returns one for each key */
export function enqueueChanges(
  { regions }: Database,
  keys: readonly StoredKey[],
  atMs: number,
): PendingChange[] {
  const changes = keys.map(({ digest, record }) => ({ digest, version: record.version, atMs }))
  for (const { rows } of regions.values()) for (const change of changes) insert(rows, change)
  return changes
}

const UNMARKED = { mark: '', markedAtMs: 0, markKeptAtMs: 0 }

/** A region that was not registered gets the changes of all keys. */
export function registerRegions({ regions }: Database, names: readonly string[], isComplete = false): void {
  for (const name of names)
    if (!regions.has(name)) regions.set(name, { isComplete, requeuedUntil: '', rows: new Map(), ...UNMARKED })
}

/** Of the outbox: no part of the guarantee. */
export type UnusedMethods = 'countPending' | 'oldestPendingMs' | 'outrank'

/** What one console calls of the outbox of a region. */
export function pendingChangesIn(
  database: Database,
  {
    console,
    consoleId,
    watcher,
  }: {
    readonly console: Process
    readonly consoleId: string
    readonly watcher: Pick<DatabaseWatcher, 'claimed'>
  },
  region: string,
): Omit<PendingChanges, UnusedMethods> {
  const call = <Result>(execute: () => Result): Promise<Result> => database.call(console, execute)
  const write = <Result>(execute: () => Result): Promise<Result> => database.call(console, execute, true)
  const rows = (): Map<string, OutboxRow> => database.regions.get(region)?.rows ?? new Map()
  return {
    claimChanges(limit) {
      const nowMs = console.clock.wallMs()
      return write(() => {
        const claimed = claim(rows(), consoleId, nowMs, limit)
        if (claimed.length > 0) watcher.claimed(console)
        return claimed
      })
    },
    findPendingChanges: digest => call(() => inOrder(rows()).filter(change => change.digest === digest)),
    hasPendingUntil: (workspaceId, atMs) =>
      call(() =>
        inOrder(rows()).some(
          row =>
            row.atMs <= atMs &&
            (workspaceId === null || database.find(row.digest)?.record.workspaceId === workspaceId),
        ),
      ),
    pendingSpan: (mark = '') => call(() => spanOf(database.regions.get(region), mark)),
    deletePendingChanges: (changes, mark = '') =>
      changes.length === 0
        ? Promise.resolve()
        : write(() => {
            if (mark !== database.regions.get(region)?.mark) return
            for (const change of changes) rows().delete(rowKeyOf(change))
          }),
    readMark: () =>
      call(() => {
        const { mark = '', markedAtMs = 0, markKeptAtMs: keptAtMs = 0 } = database.regions.get(region) ?? {}
        return { mark, markedAtMs, keptAtMs }
      }),
    claimMark(from, to) {
      const nowMs = console.clock.wallMs()
      return write(() => claimMark(database, region, { from, to, nowMs }))
    },
    renewMark(from, to) {
      const nowMs = console.clock.wallMs()
      return write(() => {
        const marked = database.regions.get(region)
        if (marked?.mark !== from) return false
        Object.assign(marked, { mark: to, markedAtMs: nowMs, markKeptAtMs: 0 })
        return true
      })
    },
    keepMark(mark) {
      const nowMs = console.clock.wallMs()
      return write(() => {
        const marked = database.regions.get(region)
        if (marked?.mark !== mark) return false
        marked.markKeptAtMs = nowMs
        return true
      })
    },
    requeueChangesSince(sinceMs) {
      const nowMs = console.clock.wallMs()
      return write(() => requeue(database, rows(), sinceMs, nowMs))
    },
    requeueNextKeys() {
      const nowMs = console.clock.wallMs()
      return write(() => requeueNext(database, database.regions.get(region), nowMs))
    },
  }
}

function insert(rows: Map<string, OutboxRow>, change: PendingChange): void {
  const row: OutboxRow = { ...change, claimedBy: '', claimedUntilMs: 0 }
  if (!rows.has(rowKeyOf(row))) rows.set(rowKeyOf(row), row)
}

function inOrder(rows: Map<string, OutboxRow>): OutboxRow[] {
  return [...rows.values()].sort((a, b) => a.atMs - b.atMs || a.version - b.version)
}

function claim(rows: Map<string, OutboxRow>, by: string, nowMs: number, limit: number): PendingChange[] {
  const free = inOrder(rows).filter(
    ({ claimedBy, claimedUntilMs }) =>
      claimedBy === by || claimedUntilMs <= nowMs || claimedUntilMs > nowMs + 2 * CLAIM_MS,
  )
  return free.slice(0, limit).map(({ digest, version, atMs }) => {
    const row = { digest, version, atMs, claimedBy: by, claimedUntilMs: nowMs + CLAIM_MS }
    rows.set(rowKeyOf(row), row)
    return { digest, version, atMs }
  })
}

/** As `mark-rows.ts` does. */
function claimMark(
  { regions, keys }: Database,
  name: string,
  { from, to, nowMs }: { readonly from: string; readonly to: string; readonly nowMs: number },
): { readonly hasKeys: boolean } | null {
  const region = regions.get(name)
  if (region?.mark !== from) return null
  Object.assign(region, { mark: to, markedAtMs: nowMs, markKeptAtMs: 0 })
  Object.assign(region, { requeuedUntil: '', isComplete: keys.size === 0 })
  return { hasKeys: keys.size > 0 }
}

function spanOf(
  region: RegionOutbox | undefined,
  mark: string,
): { oldestMs: number; newestMs: number } | null {
  if (region !== undefined && region.mark !== mark) throw new OtherMark()
  if (region?.isComplete !== true) throw new Error('The region is not complete')
  if (region.rows.size === 0) return null
  const times = [...region.rows.values()].map(({ atMs }) => atMs)
  return { oldestMs: Math.min(...times), newestMs: Math.max(...times) }
}

function requeue(database: Database, rows: Map<string, OutboxRow>, sinceMs: number, nowMs: number): void {
  for (const { key, changedAtMs } of database.keys.values()) {
    const { digest, record } = key
    if (record.version > 1 && changedAtMs >= sinceMs)
      insert(rows, { digest, version: record.version, atMs: nowMs })
  }
}

/** In the order of ids. @returns whether there are more */
function requeueNext(database: Database, region: RegionOutbox | undefined, nowMs: number): boolean {
  if (region === undefined || region.isComplete) return false
  const keys = [...database.keys.values()].sort((a, b) => (a.key.record.id < b.key.record.id ? -1 : 1))
  const after = keys.filter(({ key }) => key.record.id > region.requeuedUntil).slice(0, KEYS_AT_ONCE)
  for (const { key } of after) {
    const { digest, record } = key
    if (record.version > 1) insert(region.rows, { digest, version: record.version, atMs: nowMs })
  }
  region.requeuedUntil = after.at(-1)?.key.record.id ?? ''
  region.isComplete = after.length < KEYS_AT_ONCE
  return !region.isComplete
}
