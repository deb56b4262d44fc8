import { parseArgs } from 'node:util'
import { measureColdStart } from './cold-start.ts'
import { measureFleet } from './fleet.ts'

/** `npm run scale -- <part>`: what the control plane costs with many gateways, keys and changes. */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    gateways: { type: 'string' },
    regions: { type: 'string', default: '5' },
    each: { type: 'string' },
  },
})
const numberOf = (text: string | undefined, otherwise: number) =>
  text === undefined ? otherwise : Number(text)
const regions = Number(values.regions)

const PARTS: Readonly<Record<string, () => Promise<unknown>>> = {
  fleet: () =>
    measureFleet({
      gateways: numberOf(values.gateways, 1_000),
      regions,
      idleSeconds: 30,
      singly: 20,
      bursts: [10, 100],
    }),
  'cold-start': () =>
    measureColdStart({
      gateways: numberOf(values.gateways, 200),
      regions,
      hotKeys: 100_000,
      each: numberOf(values.each, 5_000),
      same: 2_000,
    }),
}
const part = PARTS[positionals[0] ?? '']
if (part === undefined) {
  process.stderr.write(
    `usage: npm run scale -- ${Object.keys(PARTS).join(' | ')} [--gateways N] [--regions N]\n`,
  )
  process.exit(1)
}
await part()
process.exit(0)
