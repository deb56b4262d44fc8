// All that searches for an hour, part after part: one that finds something does not keep the next from searching.
import { spawnSync } from 'node:child_process'

/** Another one each night, so that what is random searches where it has not been. */
const seed = new Date().toISOString().slice(0, 10).replaceAll('-', '')

const PARTS: readonly (readonly string[])[] = [
  ['npx', 'vitest', 'run', '--mode', 'qualify'],
  ['npm', 'run', 'fuzz', '--', '--seconds', '600'],
  // Far from the seeds of another night: a night tries fewer than a million.
  ['npm', 'run', 'simulate', '--', '--minutes', '10', '--seed', `${seed}000000`],
  ['npm', 'run', 'mutate', '--', '--lines', '300', '--seed', seed],
]

const lines = PARTS.map(([program = '', ...words]) => {
  const startedAtMs = performance.now()
  const { status, signal, error } = spawnSync(program, words, { stdio: 'inherit' })
  const minutes = ((performance.now() - startedAtMs) / 60_000).toFixed(0)
  const outcome = status === 0 ? 'passed' : `failed (${error?.message ?? signal ?? `exit code ${status}`})`
  if (status !== 0) process.exitCode = 1
  return `${outcome} after ${minutes} min: ${[program, ...words].join(' ')}`
})
process.stdout.write(`\n${lines.join('\n')}\n`)
