import { registerHooks } from 'node:module'
import { PLANTED_FAULTS } from './planted-faults.ts'

/**
 * Runs schedules with one planted fault until one breaks a law, and prints the seed: node run-planted.ts <name> <count>.
 * The text of the module is changed while Node loads it; nothing is written.
 */
const [name = '', count = '20000'] = process.argv.slice(2)
const fault = PLANTED_FAULTS.find(planted => planted.name === name)
if (fault === undefined) throw new Error(`No planted fault is named: ${name}`)
const { file, from, to } = fault
let isPlanted = false

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    if (!url.endsWith(`/src/${file}`)) return loaded
    const parts = String(loaded.source).split(from)
    if (parts.length !== 2)
      throw new Error(`${file} contains the text of "${name}" ${parts.length - 1} times`)
    isPlanted = true
    return { ...loaded, source: parts.join(to) }
  },
})

// After the hooks, which change what it imports.
const { runSeeds } = await import('../run-seeds.ts')
if (!isPlanted) throw new Error(`${file} was not loaded`)
const { schedules, found } = await runSeeds({ first: 1, count: Number(count), maxFound: 1 })
process.stdout.write(`${JSON.stringify({ schedules, violation: found[0]?.violation ?? null })}\n`)
