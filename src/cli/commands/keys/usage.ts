import { type Command, Option } from 'commander'
import { type Static, Type } from 'typebox'
import { limitWindow, usagePoint } from '../../../console/platform/http/fields.ts'
import { systemClock } from '../../../domain/clock.ts'
import { type Cli, plainText, secondText, usageError } from '../../cli.ts'
import { readResponse } from '../../client/client.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../client/session.ts'
import { checkKeyId, DAY_SECONDS, durationWithin } from '../../options/values.ts'
import { type Paint, paintFor, terminalWidth } from '../../output/terminal.ts'

const HOUR_SECONDS = 3600
/** Hours are kept for so long, days for 400. */
const HOURS_KEPT_SECONDS = 14 * DAY_SECONDS
/** Longer spans are shown by day, unless the command says otherwise. */
const HOURS_SHOWN_SECONDS = 2 * DAY_SECONDS
const BAR = '█'
/** Bars of eighths, from the shortest. */
const PARTS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']
const MAX_BAR = 50
const MIN_BAR = 8

const usageResponse = Type.Object({
  step: Type.Union([Type.Literal('hour'), Type.Literal('day')]),
  usage: Type.Array(usagePoint),
  windows: Type.Array(Type.Omit(limitWindow, ['plan', 'per'])),
})
type ShownUsage = Static<typeof usageResponse>
type Window = ShownUsage['windows'][number]

interface Options {
  readonly last: number
  readonly step?: 'hour' | 'day'
  readonly output?: 'json'
}

/** `postern keys usage` */
export function addUsage(keys: Command, cli: Cli): void {
  const flag = '--last'
  const last = new Option(`${flag} <duration>`, 'span that ends now, up to 400d')
  const usage = keys
    .command('usage')
    .description('show how often a key was used, as bars, and what is left of its rate limits')
    .argument('<id>', 'the key’s id (key_…)')
    .addOption(
      last.default(DAY_SECONDS, '24h').argParser(durationWithin(flag, HOUR_SECONDS, 400 * DAY_SECONDS)),
    )
    .addOption(
      new Option('--step <step>', 'bars of an hour (kept for 14 days) or a day').choices(['hour', 'day']),
    )
    .addOption(new Option('-o, --output <format>', 'print the response of the admin API').choices(['json']))
  addAccessOptions(addJsonOption(usage)).action(async (text: string, options: Options, self: Command) => {
    const id = checkKeyId(text)
    const session = openSession(cli, self)
    await showUsage({ ...session, json: session.json || options.output === 'json' }, id, options)
  })
}

async function showUsage({ client, host, json }: AdminSession, id: string, options: Options): Promise<void> {
  const { last, step = last > HOURS_SHOWN_SECONDS ? 'day' : 'hour' } = options
  if (step === 'hour' && last > HOURS_KEPT_SECONDS)
    throw usageError('hours are kept for 14 days: choose --last 14d, or --step day')
  const stepSeconds = step === 'hour' ? HOUR_SECONDS : DAY_SECONDS
  // The present hour or day is one of them, and the oldest one that is asked for is still kept.
  const seconds = Math.max(0, last - stepSeconds)
  const from = new Date(systemClock.wallMs() - seconds * 1000).toISOString()
  const query = new URLSearchParams({ from, step })
  const response = await client.send({ method: 'GET', path: `/keys/${id}/usage?${query}` })
  const shown = readResponse(client, usageResponse, response)
  if (json) return host.write(`${response.text}\n`)
  const paint = paintFor(host.streams.output, host)
  host.write(usageText(shown, { width: terminalWidth(host), paint }))
}

/** A bar for each hour or day, what was served and what was not apart; sums and what is left of each rate limit below. */
export function usageText(
  { step, usage, windows }: ShownUsage,
  { width, paint }: { readonly width: number; readonly paint: Paint },
): string {
  const most = Math.max(1, ...usage.map(({ requests }) => requests))
  const digits = String(most).length
  const labels = usage.map(({ at }) =>
    step === 'hour' ? `${at.slice(5, 10)} ${at.slice(11, 16)}` : at.slice(0, 10),
  )
  const [label = ''] = labels
  // Label, number, and what was not served need room beside the bar.
  const room = Math.max(MIN_BAR, Math.min(MAX_BAR, width - label.length - 2 * digits - 18))
  const lines = usage.map(({ requests, byCode }, index) => {
    const refused = requests - (byCode['ok'] ?? 0)
    const note = refused === 0 ? '' : paint('red', `  ${refused} not served`)
    const bar = renderBar((requests / most) * room)
    return `${labels[index]}  ${String(requests).padStart(digits)}  ${paint('green', bar)}${note}`.trimEnd()
  })
  return `${[...lines, '', ...describeSums(usage, paint), ...windows.map(window => windowText(window, paint))].join('\n')}\n`
}

/** @returns such as "Left      hourly: 43 of 50, until 2026-11-27 03:00:00 UTC" */
function windowText({ policy, region, limit, remaining, resetsAt }: Window, paint: Paint): string {
  const name = plainText(region === null ? policy : `${policy} in ${region}`)
  const end = resetsAt === null ? '' : `, until ${secondText(resetsAt)} UTC`
  const left = `${remaining ?? 'unknown'} of ${limit}${end}`
  return `${paint('bold', 'Left')}      ${name}: ${remaining === 0 ? paint('red', left) : left}`
}

function renderBar(length: number): string {
  const eighths = Math.max(length > 0 ? 1 : 0, Math.round(length * 8))
  return BAR.repeat(Math.floor(eighths / 8)) + (PARTS[eighths % 8] ?? '')
}

/** Times are UTC. */
function describeSums(usage: ShownUsage['usage'], paint: Paint): string[] {
  const total = usage.reduce((sum, { requests }) => sum + requests, 0)
  const list = (counts: readonly Readonly<Record<string, number>>[]) => {
    const sums = new Map<string, number>()
    for (const [name, count] of counts.flatMap(Object.entries<number>)) {
      sums.set(name, (sums.get(name) ?? 0) + count)
    }
    return [...sums]
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `${plainText(name)} ${count}`)
      .join(', ')
  }
  const requests = `${paint('bold', 'Requests')}  ${total} (times are UTC)`
  if (total === 0) return [requests]
  return [
    requests,
    `${paint('bold', 'By code')}   ${list(usage.map(({ byCode }) => byCode))}`,
    `${paint('bold', 'By route')}  ${list(usage.map(({ byRoute }) => byRoute))}`,
  ]
}
