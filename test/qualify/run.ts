// What searches for an hour, one after the other, or those that are named: one that finds something does not keep the next from searching.
import { spawnSync } from 'node:child_process'

/** Another one each night, so that what is random searches where it has not been. */
const seed = new Date().toISOString().slice(0, 10).replaceAll('-', '')

const SEARCHES: Readonly<Record<string, readonly string[]>> = {
  tests: ['npx', 'vitest', 'run', '--mode', 'qualify'],
  fuzz: ['npm', 'run', 'fuzz', '--', '--seconds', '600'],
  // Far from the seeds of another night: a night tries fewer than a million.
  simulate: ['npm', 'run', 'simulate', '--', '--minutes', '10', '--seed', `${seed}000000`],
  mutate: ['npm', 'run', 'mutate', '--', '--lines', '300', '--seed', seed],
}
const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(SEARCHES)
const unknown = names.filter(name => SEARCHES[name] === undefined)
if (unknown.length > 0) {
  process.stderr.write(
    `There is no ${unknown.join(', ')}: npm run qualify -- ${Object.keys(SEARCHES).join(' ')}\n`,
  )
  process.exit(2)
}

const lines = names.map(name => {
  const [program = '', ...words] = SEARCHES[name] ?? []
  const startedAtMs = performance.now()
  const { status, signal, error } = spawnSync(program, words, { stdio: 'inherit' })
  const minutes = ((performance.now() - startedAtMs) / 60_000).toFixed(0)
  const outcome = status === 0 ? 'passed' : `failed (${error?.message ?? signal ?? `exit code ${status}`})`
  if (status !== 0) process.exitCode = 1
  return `${outcome} after ${minutes} min: ${[program, ...words].join(' ')}`
})
process.stdout.write(`\n${lines.join('\n')}\n`)
