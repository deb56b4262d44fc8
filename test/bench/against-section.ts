import { evaluateGoals, GOALS, markOf, P99_ADDED_MS, START_GOAL } from './goals.ts'
import { medianOf, ratiosOf, type Samples } from './measure.ts'
import { type Against, samplesOf } from './results.ts'
import { median } from './statistics.ts'
import { table } from './tables.ts'

const KINDS = ['0.4 KB', '11 KB', 'forged key', 'foreign workspace', 'auth endpoint']

/** Two versions beside each other: the time of each kind of request, and each goal that both were measured for. */
export function describeAgainst(against: Against): string {
  const { date, commit, other, machine, rounds, seconds } = against
  const samples = samplesOf(against.samples)
  return [
    `\`npm run bench -- --against ${other}\`, ${date.slice(0, 10)}, ${machine}: commits \`${commit}\` and \`${other}\` in one run, ${rounds} rounds of`,
    `${seconds} s in turns on one core.`,
    '',
    table(
      ['µs of processor', `\`${commit}\``, `\`${other}\``, 'ratio', 'of single rounds'],
      KINDS.map(kind => timeRow(samples, kind)),
    ),
    '',
    table(
      ['goals', `\`${commit}\``, `\`${other}\``, 'goal: at most', ''],
      [...ratioRows(samples), ...sideRows(against)],
    ),
  ].join('\n')
}

function timeRow(samples: Samples, kind: string): string[] {
  const ratios = ratiosOf(samples, `gateway, ${kind}`, `other, ${kind}`)
  return [
    `gateway, ${kind}`,
    medianOf(samples, `gateway, ${kind}`, 'cpuUs').toFixed(1),
    medianOf(samples, `other, ${kind}`, 'cpuUs').toFixed(1),
    median(ratios).toFixed(2),
    `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`,
  ]
}

function ratioRows(samples: Samples): string[][] {
  const ofOther = evaluateGoals(
    samples,
    GOALS.map(goal => ({ ...goal, name: goal.name.replace('gateway', 'other') })),
  )
  return evaluateGoals(samples).map(({ name, to, ratio, atMost, mark }) => {
    const before = ofOther.find(goal => goal.name === name.replace('gateway', 'other') && goal.to === to)
    return [`${name} : ${to}`, ratio.toFixed(2), before?.ratio.toFixed(2) ?? '–', atMost.toFixed(2), mark]
  })
}

function sideRows({ p99AddedAtHalfMs, starts }: Against): string[][] {
  return [
    goalRow('p99 added at half the maximum rate, ms', p99AddedAtHalfMs, P99_ADDED_MS, 2),
    goalRow(
      '`npm start`, ready after ms',
      { today: starts.today.readyAfterMs, other: starts.other.readyAfterMs },
      START_GOAL.readyAfterMs,
      0,
    ),
    goalRow(
      '`npm start`, resident when idle, MB',
      { today: starts.today.idleMegabytes, other: starts.other.idleMegabytes },
      START_GOAL.idleMegabytes,
      0,
    ),
  ]
}

function goalRow(
  name: string,
  { today, other }: Readonly<Record<'today' | 'other', number>>,
  atMost: number,
  digits: number,
): string[] {
  return [name, today.toFixed(digits), other.toFixed(digits), atMost.toFixed(digits), markOf(today, atMost)]
}
