import { describeAgainst } from './against-section.ts'
import { checkAnswer, startBothVersions } from './contestants.ts'
import { inTurns } from './goals.ts'
import { type Pace, runRounds } from './measure.ts'
import { otherCheckout } from './other-checkout.ts'
import { writeResultSections } from './pages.ts'
import { readResults, saveAgainst } from './results.ts'
import { p99AddedMs } from './side-figures.ts'
import { startsOf } from './starts.ts'
import type { BenchWorld } from './world.ts'

/**
 * Measures another version beside this one in one run, with the peers and the floor, and writes the comparison into
 * docs/performance.md.
 * @param named a commit, or a directory with another checkout
 */
export async function measureAgainst(
  world: BenchWorld,
  named: string,
  { pace, lua, tell }: { pace: Pace; lua: boolean; tell: (text: string) => void },
): Promise<string> {
  const other = otherCheckout(named, world.directory)
  const contestants = inTurns(await startBothVersions(world, other.directory, lua))
  for (const contestant of contestants) await checkAnswer(contestant)
  const samples = await runRounds(contestants, pace, tell)
  tell('p99 at half of the maximum rate')
  const p99 = await p99AddedMs(contestants, samples, {
    today: 'gateway, 0.4 KB',
    other: 'other, 0.4 KB',
    leastProxy: 'node:http + undici, no auth, 0.4 KB',
  })
  await world.stopGateways()
  tell('starts')
  const starts = await startsOf({
    today: name => world.startGateway(name),
    other: name => world.startGateway(name, {}, { checkout: other.directory }),
  })
  saveAgainst(samples, { ...pace, other: other.commit, p99AddedAtHalfMs: p99, starts })
  writeResultSections()
  return describeAgainst(readResults().against)
}
