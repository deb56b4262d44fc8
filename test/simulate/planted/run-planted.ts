import { registerHooks } from 'node:module'
import { PLANTED_FAULTS } from './planted-faults.ts'

/**
 * Runs schedules with one planted fault until one breaks a law, and prints the seed: node run-planted.ts <name> <count>.
 * The text of the module is changed while Node loads it; nothing is written.
 */
const [name = '', count = '20000'] = process.argv.slice(2)
const fault = PLANTED_FAULTS.find(planted => planted.name === name)
if (fault === undefined) throw new Error(`No planted fault is named: ${name}`)
const { mutations } = fault
const missing = new Set(mutations)

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    const mutation = mutations.find(({ file }) => url.endsWith(`/src/${file}`))
    if (mutation === undefined) return loaded
    const { file, from, to } = mutation
    const parts = String(loaded.source).split(from)
    if (parts.length !== 2)
      throw new Error(`${file} contains the text of "${name}" ${parts.length - 1} times`)
    missing.delete(mutation)
    return { ...loaded, source: parts.join(to) }
  },
})

// After the hooks, which change what it imports.
const { runSeeds } = await import('../run-seeds.ts')
for (const { file } of missing) throw new Error(`${file} was not loaded`)
const { schedules, found } = await runSeeds({ first: 1, count: Number(count), maxFound: 1 })
const { user, system } = process.cpuUsage()
const seconds = Math.round((user + system) / 1e5) / 10
process.stdout.write(`${JSON.stringify({ schedules, seconds, violation: found[0]?.violation ?? null })}\n`)
