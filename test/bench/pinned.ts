import { spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'

/** Contestants have a core to themselves; load, upstream and Redis share another. */
export const CONTESTANT_CORE = 0
export const LOAD_CORE = 1

export const canPin = availableParallelism() > 1 && spawnSync('taskset', ['--version']).status === 0

/** Pins a command to one core if there are two. */
export function pinned(core: number, program: string, words: readonly string[]): [string, string[]] {
  return canPin ? ['taskset', ['-c', String(core), program, ...words]] : [program, [...words]]
}
