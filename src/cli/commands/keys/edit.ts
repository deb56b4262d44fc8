import { type Command, Option } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { EXIT } from '../../../run/host.ts'
import { type Cli, CliError, plainText, secondText, usageError } from '../../cli.ts'
import {
  type AdminResponse,
  changedResponse,
  keyResponse,
  readKey,
  readResponse,
  type ShownKey,
} from '../../client/client.ts'
import { RejectedError } from '../../client/failures.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../client/session.ts'
import {
  addFieldOptions,
  changedFields,
  clearOption,
  EDITED,
  FIELD_FLAGS,
  type FieldOptions,
  restrictionFacts,
  textFacts,
} from '../../options/key-fields.ts'
import { checkKeyId, expiresInOption, parseInstantArgument } from '../../options/values.ts'
import { dryRunOption, printDryRun, printOutcome, progressLines, whichKey } from '../../output/key-text.ts'

interface EditOptions extends FieldOptions {
  /** Seconds. */
  readonly expiresIn?: number
  readonly expiresAt?: string
  readonly clear?: readonly string[]
  readonly dryRun?: boolean
}

/** `postern keys edit` */
export function addEdit(keys: Command, cli: Cli): void {
  const edit = keys
    .command('edit')
    .description(`change ${EDITED} of a key`)
    .argument('<id>', 'the key’s id (key_…)')
  addFieldOptions(edit, 'new name')
    .addOption(expiresInOption('lifetime from now, such as 12h; an expiry can only become earlier'))
    .addOption(expiresAtOption())
    .addOption(clearOption())
    .addOption(dryRunOption())
  addAccessOptions(addJsonOption(edit)).action(async (text: string, options: EditOptions, self: Command) => {
    const id = checkKeyId(text)
    const body = createBody(options, systemClock.wallMs())
    const session = openSession(cli, self)
    await (options.dryRun === true ? planEdit(session, id, body) : editKey(session, id, body))
  })
}

/** `--expires-at`, for what takes `--expires-in` too. */
function expiresAtOption(): Option {
  const option = new Option('--expires-at <time>', 'instant at which it ends, such as 2027-02-18T09:00:00Z')
  return option.conflicts('expiresIn').argParser(parseInstantArgument)
}

/** The fields to change, as the admin API names them. */
function createBody(options: EditOptions, nowMs: number): Record<string, unknown> {
  const { expiresIn } = options
  const expiresAt =
    expiresIn === undefined ? options.expiresAt : new Date(nowMs + expiresIn * 1000).toISOString()
  const given = Object.entries({ ...changedFields(options), expiresAt })
  const body = Object.fromEntries(given.filter(([, value]) => value !== undefined))
  if (Object.keys(body).length > 0) return body
  const flags = [...FIELD_FLAGS, '--expires-in', '--expires-at']
  throw usageError(`Nothing to edit: give ${flags.join(', ')} or --clear`)
}

async function editKey(session: AdminSession, id: string, body: Record<string, unknown>): Promise<void> {
  const before = await readKey(session.client, id)
  const { version } = before
  if (version === undefined) throw session.client.notUnderstood()
  const path = `/keys/${id}?wait=1`
  const response: AdminResponse = await session.client
    .send({ method: 'PATCH', path, body, version })
    .catch(async (error: unknown) => {
      if (!(error instanceof RejectedError) || error.code !== 'precondition_failed') throw error
      throw changedMeanwhile(before, await readKey(session.client, id))
    })
  printChange(session, response, (key, which) =>
    key.version === version ? `${nothingToEdit(which)}.` : `Edited ${which}.`,
  )
}

async function planEdit(session: AdminSession, id: string, body: Record<string, unknown>): Promise<void> {
  const { client } = session
  const before = await readKey(client, id)
  const response = await client.send({ method: 'POST', path: `/keys/${id}/check-edit`, body })
  const { key: after } = readResponse(client, keyResponse, response)
  const which = whichKey(before)
  if (after.version === before.version) {
    printDryRun(session, { key: after, differences: [] }, nothingToEdit(which), [], 0)
    return
  }
  const differences = describeDifferences(before, after, 'would be')
  printDryRun(session, { key: after, differences }, `Would edit ${which}`, differences, differences.length)
}

function nothingToEdit(which: string): string {
  return `Nothing to edit: ${which} has these values already`
}

function changedMeanwhile(before: ShownKey, after: ShownKey): CliError {
  const differences = describeDifferences(before, after, 'is now')
  const what = differences.length === 0 ? 'and changed back' : differences.join('; ')
  const message = `Someone changed ${plainText(after.id)} meanwhile: ${what}. Your edit was not made: run the command again if it still applies`
  return new CliError(message, EXIT.rejected)
}

/** What changed between two readings of a key, such as `name is now "b", was "a"`. */
function describeDifferences(before: ShownKey, after: ShownKey, verb: 'is now' | 'would be'): string[] {
  const [was, is] = [comparedFields(before), comparedFields(after)]
  return Object.entries(is).flatMap(([field, now]) =>
    now === was[field]
      ? []
      : [`${field} ${verb} ${now}, ${verb === 'is now' ? 'was' : 'is'} ${was[field] ?? 'none'}`],
  )
}

function comparedFields(key: ShownKey): Record<string, string> {
  const texts = textFacts(key).map(([label, text]) => [label, text === null ? 'none' : quoted(text)] as const)
  const named = Object.entries({
    Name: quoted(key.name),
    ...Object.fromEntries(texts),
    ...Object.fromEntries(restrictionFacts(key).map(([label, text]) => [label, text ?? 'none'] as const)),
    // To the second, so that a difference is one.
    Expiry: `${secondText(key.expiresAt)} UTC`,
    State: plainText(key.state),
  })
  return Object.fromEntries(named.map(([label, text]) => [label.toLowerCase(), text]))
}

function quoted(text: string): string {
  return `"${plainText(text)}"`
}

const STEPS = [
  {
    name: 'suspend',
    description: 'suspend a key: gateways reject it until it is resumed',
    done: 'Suspended',
  },
  { name: 'resume', description: 'let a suspended key work again', done: 'Resumed' },
] as const

/** `postern keys suspend` and `resume`. They ask nothing: each reverses the other. */
export function addSteps(keys: Command, cli: Cli): void {
  for (const { name, description, done } of STEPS) {
    const step = keys.command(name).description(description).argument('<id>', 'the key’s id (key_…)')
    addAccessOptions(addJsonOption(step)).action(async (text: string, _, self: Command) => {
      const id = checkKeyId(text)
      const session = openSession(cli, self)
      const response = await session.client.send({ method: 'POST', path: `/keys/${id}/${name}?wait=1` })
      printChange(session, response, (_key, which) => `${done} ${which}.`)
    })
  }
}

/**
 * Prints what happened to a key and how far it has come, like a revocation.
 * @param toText what happened, in one sentence
 */
function printChange(
  session: AdminSession,
  response: AdminResponse,
  toText: (key: ShownKey, which: string) => string,
): void {
  const { key, committedAt, ...progress } = readResponse(session.client, changedResponse, response)
  const which = whichKey(key)
  printOutcome(session, response.text, progress, [
    toText(key, which),
    ...progressLines(committedAt, progress),
  ])
}
