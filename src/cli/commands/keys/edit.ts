import { type Command, InvalidArgumentError, Option } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import { EXIT } from '../../../run/host.ts'
import { type AdminResponse, RejectedError } from '../../admin/client.ts'
import { keyResponse, readResponse, type ShownKey } from '../../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import { type Cli, CliError } from '../../cli.ts'
import { allowCidrOption, checkKeyId, expiresAtOption, expiresInOption } from '../../options/key-options.ts'
import { printChange } from '../../output/change-text.ts'
import { differencesOf } from '../../output/key-differences.ts'
import { plainText } from '../../output/text.ts'

const CLEARABLE = { description: null, 'allow-cidr': [] }

interface EditOptions {
  readonly name?: string
  readonly description?: string
  /** Seconds. */
  readonly expiresIn?: number
  readonly expiresAt?: string
  readonly allowCidr?: readonly string[]
  readonly clear?: readonly string[]
}

/** `postern keys edit` */
export function addEdit(keys: Command, cli: Cli): void {
  const edit = keys
    .command('edit')
    .description('change the name, description, expiry or allowed networks of a key')
    .argument('<id>', 'the key’s id (key_…)')
    .option('--name <name>', 'new name')
    .option('--description <text>', 'what the key is for, in one line')
    .addOption(expiresInOption('lifetime from now, such as 12h; an expiry can only become earlier'))
    .addOption(expiresAtOption())
    .addOption(allowCidrOption())
    .addOption(clearOption())
  addAccessOptions(addJsonOption(edit)).action(async (text: string, options: EditOptions, self: Command) => {
    const id = checkKeyId(text)
    const body = bodyOf(options, systemClock.wallMs())
    await editKey(openSession(cli, self), id, body)
  })
}

/** `--clear description --clear allow-cidr` */
function clearOption(): Option {
  const fields = Object.keys(CLEARABLE)
  const option = new Option('--clear <field>', 'remove the description, or the limit to networks')
  return option.choices(fields).argParser((text: string, before: readonly string[] = []) => {
    if (!fields.includes(text)) throw new InvalidArgumentError(`It must be ${fields.join(' or ')}.`)
    return [...before, text]
  })
}

/** The fields to change, as the admin API names them. */
function bodyOf(options: EditOptions, nowMs: number): Record<string, unknown> {
  const { name, description, expiresIn, allowCidr, clear = [] } = options
  const expiresAt =
    expiresIn === undefined ? options.expiresAt : new Date(nowMs + expiresIn * 1000).toISOString()
  const cleared = { description: clear.includes('description'), allowCidr: clear.includes('allow-cidr') }
  if (cleared.description && description !== undefined)
    throw usage('--description and --clear description exclude each other')
  if (cleared.allowCidr && allowCidr !== undefined)
    throw usage('--allow-cidr and --clear allow-cidr exclude each other')
  const given = {
    name,
    description: cleared.description ? CLEARABLE.description : description,
    expiresAt,
    allowedCidrs: cleared.allowCidr ? CLEARABLE['allow-cidr'] : allowCidr,
  }
  const body = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  if (Object.keys(body).length > 0) return body
  throw usage(
    'Nothing to edit: give --name, --description, --expires-in, --expires-at, --allow-cidr or --clear',
  )
}

async function editKey(session: AdminSession, id: string, body: Record<string, unknown>): Promise<void> {
  const { key: before } = await readKey(session, id)
  const { version } = before
  if (version === undefined) throw session.client.notUnderstood()
  const path = `/keys/${id}?wait=1`
  const response: AdminResponse = await session.client
    .send({ method: 'PATCH', path, body, version })
    .catch(async (error: unknown) => {
      if (!(error instanceof RejectedError) || error.code !== 'precondition_failed') throw error
      throw changedMeanwhile(before, (await readKey(session, id)).key)
    })
  printChange(session, response, (key, which) =>
    key.version === version ? `Nothing to edit: ${which} has these values already.` : `Edited ${which}.`,
  )
}

async function readKey({ client }: AdminSession, id: string) {
  return readResponse(client, keyResponse, await client.send({ method: 'GET', path: `/keys/${id}` }))
}

function changedMeanwhile(before: ShownKey, after: ShownKey): CliError {
  const differences = differencesOf(before, after)
  const what = differences.length === 0 ? 'and changed back' : differences.join('; ')
  const message = `Someone changed ${plainText(after.id)} meanwhile: ${what}. Your edit was not made: run the command again if it still applies`
  return new CliError(message, EXIT.rejected)
}

function usage(message: string): CliError {
  return new CliError(message, EXIT.usage)
}
