import { InvalidArgumentError, Option } from 'commander'
import { normalizeCidrs } from '../../domain/address/cidr.ts'
import { MAX_LIFETIME_DAYS, parseInstant } from '../../domain/key/issue-key.ts'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { MAX_OVERLAP_SECONDS } from '../../domain/key/rotate-key.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { EXIT } from '../../run/host.ts'
import { CliError } from '../cli.ts'
import { durationWithin } from './duration.ts'

const DAY_SECONDS = 86_400
const SHORTEST_SECONDS = 60

export function expiresInOption(
  description = 'lifetime of the key, such as 90d or 12h (default: 90d)',
): Option {
  const flag = '--expires-in'
  const option = new Option(`${flag} <duration>`, description)
  return option.argParser(durationWithin(flag, SHORTEST_SECONDS, MAX_LIFETIME_DAYS * DAY_SECONDS))
}

export function overlapOption(): Option {
  const flag = '--overlap'
  const description = 'how long the old key keeps working (default: 24h); 0 revokes it at once'
  return new Option(`${flag} <duration>`, description).argParser(durationWithin(flag, 0, MAX_OVERLAP_SECONDS))
}

/** `--expires-at`, for what takes `--expires-in` too. */
export function expiresAtOption(): Option {
  const option = new Option('--expires-at <time>', 'instant at which it ends, such as 2027-02-18T09:00:00Z')
  return option.conflicts('expiresIn').argParser(parseInstantArgument)
}

/** An instant, as the admin API takes it. */
export function parseInstantArgument(text: string): string {
  if (parseInstant(text) !== null) return text
  throw new InvalidArgumentError('It must be an instant such as 2027-02-18T09:00:00Z.')
}

/** `--allow-cidr a,b --allow-cidr c` */
export function allowCidrOption(): Option {
  const description = 'addresses or CIDRs that may use the key, separated by commas; may be repeated'
  return new Option('--allow-cidr <cidrs>', description).argParser(
    (text: string, before: readonly string[] = []) => [...before, ...splitCidrs(text)],
  )
}

function splitCidrs(text: string): string[] {
  const cidrs = text.split(',').map(cidr => cidr.trim())
  if (normalizeCidrs(cidrs) !== null) return cidrs
  throw new InvalidArgumentError('It must be IP addresses or CIDRs, such as 192.0.2.0/24.')
}

/** `--scope a,b --scope c` */
export function scopeOption(): Option {
  return new Option('--scope <scopes>', 'scopes of the key, separated by commas; may be repeated').argParser(
    (text: string, before: readonly string[] = []) => [...new Set([...before, ...splitScopes(text)])],
  )
}

function splitScopes(text: string): string[] {
  const scopes = text.split(',').map(scope => scope.trim())
  if (scopes.includes('')) throw new InvalidArgumentError('It must be scopes separated by commas.')
  return scopes
}

export function checkWorkspace(text: string): string {
  const id = plainPasted(text)
  if (isWorkspaceId(id)) return id
  const expected = '1 to 128 characters of A-Z, a-z, 0-9 and "-", ".", "_", "~"'
  throw new CliError(`--workspace must be ${expected}`, EXIT.usage)
}

/** A secret pasted here by mistake must not reach an error message, a URL or the console's log. */
export function checkKeyId(text: string): string {
  const id = plainPasted(text)
  if (/^key_[0-9A-HJKMNP-TV-Z]{26}$/.test(id)) return id
  const message = 'This is not the id of a key: ids begin with key_, and `postern keys list` shows them'
  throw new CliError(message, EXIT.usage)
}

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

/** What a command that failed printed, so that the same command finds what it made. */
export function idempotencyKeyOption(): Option {
  const option = new Option(
    '--idempotency-key <text>',
    'of an earlier attempt, which is found if it succeeded',
  )
  return option.argParser((text: string) => {
    if (IDEMPOTENCY_KEY.test(text)) return text
    throw new InvalidArgumentError('An idempotency key has 1 to 255 visible ASCII characters.')
  })
}
