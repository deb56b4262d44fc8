import { parseArgs } from 'node:util'
import { measureChanges } from './changes.ts'
import { measureColdStart } from './cold-start.ts'
import { fillKeys } from './fill-keys.ts'
import { measureFleet } from './fleet.ts'
import { measureKeys } from './keys.ts'
import { say } from './readings.ts'

/**
 * `npm run scale -- <part>`: what the control plane costs with many gateways, keys and changes. `keys` needs the URL of a
 * PostgreSQL, which `--fill 10000000` fills first if it is empty.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    gateways: { type: 'string' },
    regions: { type: 'string', default: '5' },
    each: { type: 'string' },
    fill: { type: 'string' },
    rates: { type: 'string' },
    minutes: { type: 'string' },
  },
})
const numberOf = (text: string | undefined, otherwise: number) =>
  text === undefined ? otherwise : Number(text)
const numbersOf = (text: string) => text.split(',').map(Number)
const regions = Number(values.regions)

const PARTS: Readonly<Record<string, () => Promise<unknown>>> = {
  fleet: () =>
    measureFleet({
      gateways: numberOf(values.gateways, 1_000),
      regions,
      keys: 30_000,
      idleSeconds: 30,
      singly: 20,
      bursts: [10, 100],
      waiting: 20,
    }),
  'cold-start': () =>
    measureColdStart({
      gateways: numberOf(values.gateways, 200),
      regions,
      hotKeys: 100_000,
      each: numberOf(values.each, 5_000),
      same: 2_000,
    }),
  changes: () =>
    measureChanges({
      gateways: numberOf(values.gateways, 10),
      regions,
      keys: 60_000,
      rates: numbersOf(values.rates ?? '50,100,200,300,400,600,800,1000'),
      stepSeconds: 20,
      longSeconds: 60 * numberOf(values.minutes, 10),
    }),
  keys: async () => {
    const url = positionals[1] ?? ''
    const population = {
      keys: numberOf(values.fill, 0),
      workspaces: 100_000,
      inLargest: 1_000_000,
      nowMs: Date.now(),
    }
    if (population.keys > 0) await fillKeys(url, population, say)
    await measureKeys(url)
  },
}
const part = PARTS[positionals[0] ?? '']
if (part === undefined) {
  process.stderr.write(
    `usage: npm run scale -- ${Object.keys(PARTS).join(' | ')} [--gateways N] [--regions N] [--each N] [--rates N,N] [--minutes N]\n`,
  )
  process.exit(1)
}
await part()
process.exit(0)
