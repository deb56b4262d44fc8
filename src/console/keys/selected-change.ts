import { combineAnnounced } from '../announcing/index.ts'
import type { OperationContext } from '../platform/http/request-context.ts'
import { type ChangeProgress, readChangeProgress } from './change-progress.ts'
import { type KeyView, viewAfter } from './key-view.ts'
import type { Registry } from './registry.ts'
import type { OperationResult, OperationSuccess } from './run-operation.ts'

/** What became of one of several keys. `unknown`: the database did not say. */
export interface ChangedKey {
  readonly key: KeyView
  readonly outcome: 'changed' | 'unchanged' | 'final' | 'unknown'
}

export interface SelectedOutcome {
  readonly keys: readonly ChangedKey[]
  /** As to the last key, since gateways apply changes in their order; null if no key is as it should be. */
  readonly progress: Pick<ChangeProgress, 'announced' | 'gateways'> | null
}

/**
 * Changes each key by itself, with its own audit entry, all at once: on PostgreSQL their reads, their commits and the end of their
 * announcements are shared, so that a hundred keys cost a few round trips.
 * @throws if all fail
 */
export async function changeSelected(
  registry: Registry,
  keys: readonly KeyView[],
  change: (registry: Registry, keyId: string, context: OperationContext) => Promise<OperationResult>,
  context: OperationContext,
): Promise<SelectedOutcome> {
  const results = await Promise.allSettled(keys.map(({ record }) => change(registry, record.id, context)))
  const failures = results.filter(result => result.status === 'rejected')
  if (failures.length === keys.length) throw failures[0]?.reason
  const done = results.flatMap(result =>
    result.status === 'fulfilled' && result.value.kind === 'done' ? result.value : [],
  )
  return {
    keys: keys.map((key, index) => {
      const result = results[index]
      return describe(registry, key, result?.status === 'fulfilled' ? result.value : null)
    }),
    progress: await readProgress(registry, done),
  }
}

/** @param result null: it failed */
function describe(registry: Registry, before: KeyView, result: OperationResult | null): ChangedKey {
  if (result === null || (result.kind !== 'done' && result.kind !== 'final')) {
    return { key: before, outcome: 'unknown' }
  }
  if (result.kind === 'final') return { key: { ...before, state: result.state }, outcome: 'final' }
  const outcome = result.changed ? 'changed' : 'unchanged'
  return { key: viewAfter(result.record, before, registry), outcome }
}

async function readProgress(
  registry: Registry,
  done: readonly OperationSuccess[],
): Promise<SelectedOutcome['progress']> {
  const changed = done.filter(one => one.changed)
  const last = (changed.length > 0 ? changed : done)
    .toSorted((a, b) => (a.committedAtMs ?? 0) - (b.committedAtMs ?? 0))
    .at(-1)
  if (last === undefined) return null
  const { gateways } = await readChangeProgress(registry, last, true)
  return { announced: combineAnnounced(done.map(({ announced }) => announced)), gateways }
}
