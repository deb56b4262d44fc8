import type { Contestant } from './contestants.ts'
import { checkAnswer, startGatewayAndPeers } from './contestants.ts'
import {
  cannotTell,
  isDisturbed,
  type Judgement,
  judge,
  percent,
  type Series,
  type Summary,
  summarize,
  TOLERANCE,
} from './gate.ts'
import { inTurns } from './goals.ts'
import { NoResponseError, ratiosOf, runRound, type Samples, warmUp } from './measure.ts'
import { watchOthers } from './processor-time.ts'
import { commit, machine, readRatios, saveRatios, type WrittenRatios } from './results.ts'
import { median } from './statistics.ts'
import { table } from './tables.ts'
import { BenchWorld } from './world.ts'

/** A proxy that reads, forwards and writes as the gateway does: what moves the machine's system calls moves both. */
const REFERENCE = 'http-proxy-3, 0.4 KB'
const PAIRS = [
  ['gateway, 0.4 KB', REFERENCE],
  ['gateway, 0.4 KB', 'reply-from, 0.4 KB'],
  ['gateway, forged key', REFERENCE],
  ['gateway, auth endpoint', REFERENCE],
] as const
/** As ratios.json has them. */
export const PAIR_NAMES: readonly string[] = PAIRS.map(pairName)
const NAMES: ReadonlySet<string> = new Set(PAIRS.flat())

const SERIES = 5
const SERIES_TO_WRITE = 9
/** One in each order of turns: the mean of two knows a ratio about as well as the median of three, and processes differ by more. */
const ROUNDS_OF_A_SERIES = 2
const ROUND_SECONDS = 1
const SHORT_WARM_UP_SECONDS = 2

/**
 * Compares with the written ratios. One that is worse is measured again, and counts as worse only if it is so both times.
 * @returns whether one is worse
 */
export async function compareShort(say: (text: string) => void): Promise<boolean> {
  const written = readRatios()
  let suspects = [...PAIR_NAMES]
  for (const heading of ['', '\nOnce more:']) {
    if (heading !== '') say(heading)
    const judgements = judgeAll(
      written,
      await runSeries(SERIES, all => isMeasured(judgeAll(written, all)), written.referenceUs),
    )
    say(describe(written, judgements))
    suspects = suspects.filter(pair => judgements.get(pair)?.verdict === 'worse')
    if (suspects.length === 0) return false
  }
  say(`Worse both times: ${suspects.join(', ')}`)
  return true
}

/**
 * Writes the ratios of a quiet machine.
 * @returns whether it was quiet enough for every ratio; otherwise the file stays as it is
 */
export async function writeShort(say: (text: string) => void): Promise<boolean> {
  const all = await runSeries(SERIES_TO_WRITE, () => false)
  const summaries = PAIR_NAMES.map(pair => [pair, summarize(of(all, pair))] as const)
  const ratios: Record<string, WrittenRatios['ratios'][string]> = {}
  for (const [pair, summary] of summaries) {
    say(`${pair}: ${lineOf(summary)}`)
    if (typeof summary === 'string') continue
    const { low, high } = summary
    ratios[pair] = { median: rounded(summary.median), spread: [rounded(low), rounded(high)] }
  }
  if (Object.keys(ratios).length < PAIRS.length) {
    say('Nothing is written: run this on a machine without other work.')
    return false
  }
  const referenceUs = median(
    of(all, pairName(PAIRS[0]))
      .flat()
      .filter(round => !isDisturbed(round))
      .map(round => round.referenceUs),
  )
  const measured = `npm run bench -- --short --write, ${new Date().toISOString().slice(0, 10)}, commit ${commit()}, ${machine()}: median, lowest and highest of ${SERIES_TO_WRITE} series, each with new processes`
  saveRatios({ measured, referenceUs: rounded(referenceUs), ratios })
  return true
}

type SeriesByPair = ReadonlyMap<string, Series>

function of(all: readonly SeriesByPair[], pair: string): Series[] {
  return all.map(series => series.get(pair) ?? [])
}

/** Ends early where these series suffice, and where the others cannot. @param referenceUs the written time of the reference */
async function runSeries(
  count: number,
  suffice: (all: readonly SeriesByPair[]) => boolean,
  referenceUs?: number,
): Promise<SeriesByPair[]> {
  const all: SeriesByPair[] = []
  while (all.length < count && !suffice(all)) {
    all.push(await runOneSeries())
    const rounds = of(all, pairName(PAIRS[0])).flat()
    if (cannotTell(rounds, count * ROUNDS_OF_A_SERIES, referenceUs)) break
  }
  return all
}

/** Rounds of each ratio, with processes that this series starts and stops. */
async function runOneSeries(): Promise<SeriesByPair> {
  const world = await BenchWorld.start()
  try {
    const contestants = (await startGatewayAndPeers(world)).filter(({ name }) => NAMES.has(name))
    for (const contestant of contestants) await checkAnswer(contestant)
    return await measureRounds(inTurns(contestants))
  } finally {
    await world.stop()
  }
}

async function measureRounds(contestants: readonly Contestant[]): Promise<SeriesByPair> {
  const rounds: { samples: Samples; othersShare: number }[] = []
  await unlessDisturbed(() => warmUp(contestants, SHORT_WARM_UP_SECONDS, SILENT))
  for (let round = 1; round <= ROUNDS_OF_A_SERIES; round++) {
    const samples: Samples = new Map(contestants.map(({ name }) => [name, []]))
    const othersShare = await unlessDisturbed(() =>
      runRound(contestants, { round, seconds: ROUND_SECONDS }, samples, SILENT),
    )
    rounds.push({ samples, othersShare })
  }
  return new Map(
    PAIRS.map(pair => [
      pairName(pair),
      rounds.map(({ samples, othersShare }) => ({
        ratio: ratiosOf(samples, pair[0], pair[1])[0] ?? Number.NaN,
        referenceUs: samples.get(REFERENCE)?.[0]?.cpuUs ?? Number.NaN,
        othersShare,
      })),
    ]),
  )
}

const SILENT = () => {}

/** A contestant that does not answer is a fault, but on a machine that others use. @returns what others took */
async function unlessDisturbed(run: () => Promise<void>): Promise<number> {
  const othersShare = watchOthers()
  const outcome = await run().then(
    () => null,
    (error: unknown) => ({ error }),
  )
  const share = othersShare()
  if (outcome === null) return share
  if (outcome.error instanceof NoResponseError && isDisturbed({ othersShare: share })) return share
  throw outcome.error
}

function judgeAll(
  { ratios, referenceUs }: WrittenRatios,
  all: readonly SeriesByPair[],
): Map<string, Judgement> {
  return new Map(
    PAIR_NAMES.map(pair => {
      const written = ratios[pair]
      if (written === undefined) throw new Error(`ratios.json holds no ratio ${pair}`)
      return [
        pair,
        judge(
          { median: written.median, ...(referenceUs === undefined ? {} : { referenceUs }) },
          of(all, pair),
        ),
      ]
    }),
  )
}

function isMeasured(judgements: ReadonlyMap<string, Judgement>): boolean {
  return [...judgements.values()].every(({ verdict }) => verdict !== 'not measured')
}

function describe({ ratios }: WrittenRatios, judgements: ReadonlyMap<string, Judgement>): string {
  const rows = [...judgements].map(([pair, { measured, verdict, reason }]) => [
    pair,
    Number.isNaN(measured) ? '–' : measured.toFixed(2),
    ratios[pair]?.median.toFixed(2) ?? '',
    reason === '' ? verdict : `${verdict}: ${reason}`,
  ])
  const better = [...judgements.values()].some(({ verdict }) => verdict === 'better')
  return [
    table(['processor time, as a ratio', 'measured', 'written', `within ${percent(TOLERANCE)}`], rows),
    ...(better ? ['Better than written. To hold it: npm run bench -- --short --write'] : []),
  ].join('\n')
}

function lineOf(summary: Summary | string): string {
  if (typeof summary === 'string') return `not measured: ${summary}`
  return `${summary.median.toFixed(2)}, ${summary.low.toFixed(2)} to ${summary.high.toFixed(2)}`
}

function pairName([name, to]: readonly [string, string]): string {
  return `${name} : ${to}`
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
