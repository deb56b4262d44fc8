import { type Command, Option } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { EXIT } from '../../../run/host.ts'
import { readResponse, usageResponse } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import { type Cli, CliError } from '../../cli.ts'
import { durationWithin } from '../../options/duration.ts'
import { checkKeyId } from '../../options/key-options.ts'
import { paintFor } from '../../output/paint.ts'
import { widthOf } from '../../output/print-list.ts'
import { usageText } from '../../output/usage-text.ts'

const HOUR_SECONDS = 3600
const DAY_SECONDS = 86_400
/** Hours are kept for so long, days for 400. */
const HOURS_KEPT_SECONDS = 14 * DAY_SECONDS
/** Longer spans are shown by day, unless the command says otherwise. */
const HOURS_SHOWN_SECONDS = 2 * DAY_SECONDS

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
    .description('show how often a key was used, as bars')
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
    throw new CliError('hours are kept for 14 days: choose --last 14d, or --step day', EXIT.usage)
  const stepSeconds = step === 'hour' ? HOUR_SECONDS : DAY_SECONDS
  // The present hour or day is one of them, and the oldest one that is asked for is still kept.
  const seconds = Math.max(0, last - stepSeconds)
  const from = new Date(systemClock.wallMs() - seconds * 1000).toISOString()
  const query = new URLSearchParams({ from, step })
  const response = await client.send({ method: 'GET', path: `/keys/${id}/usage?${query}` })
  const shown = readResponse(client, usageResponse, response)
  if (json) return host.write(`${response.text}\n`)
  const paint = paintFor(host.streams.output, host)
  host.write(usageText(shown, { width: widthOf(host), paint }))
}
