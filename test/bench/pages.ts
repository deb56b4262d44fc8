import { readFileSync, writeFileSync } from 'node:fs'
import { describeAgainst } from './against-section.ts'
import { evaluateGoals, type Mark, markOf, P99_ADDED_MS, START_GOAL } from './goals.ts'
import { type Results, readRatios, readResults, samplesOf, type WrittenRatios } from './results.ts'
import type { SideFigures } from './side-figures.ts'
import { goalsTable, samplesTable, table } from './tables.ts'

const ROOT = new URL('../../', import.meta.url)
const PERFORMANCE = 'docs/performance.md'

/** Text between the markers `<!-- name -->` and `<!-- /name -->` of a page. */
export interface Section {
  readonly page: string
  readonly name: string
  readonly text: string
}

/** Everything in pages that follows from `results.json`, `ratios.json` and the goals. */
export function writeResultSections(): void {
  for (const section of resultSections(readResults(), readRatios())) writeSection(section)
}

export function resultSections(results: Results, gate: WrittenRatios): Section[] {
  return [
    { page: 'README.md', name: 'speed', text: speedSection(results) },
    { page: PERFORMANCE, name: 'bench-against', text: describeAgainst(results.against) },
    { page: PERFORMANCE, name: 'bench', text: requestsSection(results) },
    { page: PERFORMANCE, name: 'bench-starts', text: startsSection(results) },
    { page: PERFORMANCE, name: 'bench-gate', text: gateSection(gate, results) },
  ]
}

export function writePerformance(name: string, text: string): void {
  writeSection({ page: PERFORMANCE, name, text })
}

function writeSection({ page, name, text }: Section): void {
  const file = new URL(page, ROOT)
  const all = readFileSync(file, 'utf8')
  const { begin, end } = placeOf(page, all, name)
  writeFileSync(file, `${all.slice(0, begin)}\n\n${text}\n\n${all.slice(end)}`)
}

/** @returns the text that a page has now */
export function readSection(page: string, name: string): string {
  const all = readFileSync(new URL(page, ROOT), 'utf8')
  const { begin, end } = placeOf(page, all, name)
  return all.slice(begin, end).trim()
}

function placeOf(page: string, all: string, name: string): { begin: number; end: number } {
  const [opening, closing] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const begin = all.indexOf(opening)
  const end = all.indexOf(closing)
  if (begin < 0 || end < begin) throw new Error(`${page} must hold ${opening} and, after it, ${closing}`)
  return { begin: begin + opening.length, end }
}

/** Names in the README's words, and the goal each of them has. */
const README_ROWS: readonly (readonly [text: string, name: string, to: string])[] = [
  ['forwarded, 0.4 KB : bare http-proxy-3 without authentication', 'gateway, 0.4 KB', 'http-proxy-3, 0.4 KB'],
  ['forwarded, 0.4 KB : bare reply-from without authentication', 'gateway, 0.4 KB', 'reply-from, 0.4 KB'],
  ['forwarded, 0.4 KB : nginx + Lua with the same checks', 'gateway, 0.4 KB', 'nginx + Lua, 0.4 KB'],
  ['forged key : bare Node server that answers 401', 'gateway, forged key', 'bare Node 401'],
]

function speedSection({ requests, starts }: Results): string {
  const results = evaluateGoals(samplesOf(requests.samples))
  const rows = README_ROWS.map(([text, name, to]) => {
    const found = results.find(goal => goal.name === name && goal.to === to)
    if (found === undefined) throw new Error(`results.json holds no ${name} : ${to}`)
    return [text, found.ratio.toFixed(2), found.atMost.toFixed(2), found.mark]
  })
  const marks = [...results.map(({ mark }) => mark), ...sideMarks(requests.side), ...startMarks(starts)]
  const met = marks.filter(mark => mark === 'met').length
  return [
    `Processor time of a request as a ratio, on one core, at commit \`${requests.commit}\`, ${requests.date.slice(0, 10)}:`,
    '',
    table(['', 'ratio', 'goal: at most', ''], rows),
    '',
    `Of all ${marks.length} goals, start and latency included, ${met} are met.`,
    '',
    `![Processor time of a request, by contestant (commit ${requests.commit})](test/bench/results.svg)`,
  ].join('\n')
}

function requestsSection({ requests }: Results): string {
  const { date, commit, machine, rounds, seconds, side } = requests
  const samples = samplesOf(requests.samples)
  return [
    `\`npm run bench\`, ${date.slice(0, 10)}, commit \`${commit}\`, ${machine}: ${rounds} rounds of ${seconds} s in turns, 64`,
    'connections, access log, metrics and every check on. Times move with the machine; ratios within one run are the result.',
    '',
    '![Processor time of a request, by contestant](../test/bench/results.svg)',
    '',
    samplesTable(samples),
    '',
    goalsTable(evaluateGoals(samples)),
    '',
    sideTable(side),
  ].join('\n')
}

function sideMarks({ p99AddedAtHalfMs, p99AtLimitMs }: SideFigures): [Mark, Mark] {
  return [
    markOf(p99AddedAtHalfMs.gateway, P99_ADDED_MS),
    markOf(p99AtLimitMs.gateway, p99AtLimitMs.httpProxy),
  ]
}

export function sideTable(side: SideFigures): string {
  const [added, limit] = sideMarks(side)
  const { p99AddedAtHalfMs, p99AtLimitMs } = side
  const rows = [
    [
      'p99 added at half its maximum rate',
      `${p99AddedAtHalfMs.gateway.toFixed(2)} ms`,
      `${P99_ADDED_MS.toFixed(2)} ms`,
      added,
    ],
    ['the same for node:http + undici without auth', `${p99AddedAtHalfMs.leastProxy.toFixed(2)} ms`, '', ''],
    [
      'p99 at its maximum rate',
      `${p99AtLimitMs.gateway.toFixed(1)} ms`,
      `${p99AtLimitMs.httpProxy.toFixed(1)} ms (bare http-proxy-3)`,
      limit,
    ],
  ]
  return table(['the gateway', 'measured', 'goal: at most', ''], rows)
}

/** Forms of the gateway that have goals: time to readiness and idle memory of each. */
const STARTED_DAILY = ['gateway, built, as in the image', 'gateway, `npm start`']

function startMarks({ forms }: Results['starts']): Mark[] {
  return STARTED_DAILY.flatMap(name => {
    const form = forms[name]
    if (form === undefined) throw new Error(`results.json holds no start of ${name}`)
    return [
      markOf(form.readyAfterMs, START_GOAL.readyAfterMs),
      markOf(form.idleMegabytes, START_GOAL.idleMegabytes),
    ]
  })
}

export function startsSection({ starts }: Pick<Results, 'starts'>): string {
  const { date, commit, machine, rounds, forms } = starts
  const rows = Object.entries(forms).map(([form, { readyAfterMs, idleMegabytes }]) => {
    const has = STARTED_DAILY.includes(form)
    return [
      form,
      readyAfterMs.toFixed(0),
      has ? markOf(readyAfterMs, START_GOAL.readyAfterMs) : '',
      idleMegabytes.toFixed(0),
      has ? markOf(idleMegabytes, START_GOAL.idleMegabytes) : '',
    ]
  })
  rows.push(['goal: at most', String(START_GOAL.readyAfterMs), '', String(START_GOAL.idleMegabytes), ''])
  return [
    `\`npm run bench -- --starts\`, ${date.slice(0, 10)}, commit \`${commit}\`, ${machine}: medians of ${rounds} starts in turns, on one core.`,
    '',
    table(['', 'ready after ms', '', 'resident when idle, MB', ''], rows),
  ].join('\n')
}

function gateSection({ measured, referenceUs, ratios }: WrittenRatios, { requests }: Results): string {
  const goals = evaluateGoals(samplesOf(requests.samples))
  const rows = Object.entries(ratios).map(([pair, { median, spread }]) => {
    const goal = goals.find(({ name, to }) => `${name} : ${to}` === pair)
    return [
      pair,
      median.toFixed(2),
      spread?.map(end => end.toFixed(2)).join(' to ') ?? '–',
      goal?.atMost.toFixed(2) ?? '',
      goal === undefined ? '' : markOf(median, goal.atMost),
    ]
  })
  const reference = referenceUs === undefined ? '' : ` http-proxy-3 took ${referenceUs.toFixed(1)} µs.`
  return [
    `${measured}.${reference}`,
    '',
    table(['processor time, as a ratio', 'median', 'spread', 'goal', ''], rows),
  ].join('\n')
}
