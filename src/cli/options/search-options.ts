import { type Command, Option } from 'commander'
import { systemClock } from '../../domain/clock.ts'
import { KEY_STATES } from '../../domain/key/key-record.ts'
import { plainSearch } from '../../domain/pasted-text.ts'
import { parseDuration } from './duration.ts'

const SORTS = ['createdAt', 'expiresAt', 'lastUsedAt', 'name'].flatMap(field => [field, `-${field}`])

export interface SearchOptions {
  readonly state?: string
  readonly search?: string
  readonly scope?: string
  readonly sort?: string
  /** In seconds. */
  readonly unused?: number
}

/** The conditions of `GET /admin/v1/keys`. */
export function addSearchOptions(command: Command): Command {
  return command
    .addOption(new Option('--state <state>', 'keys in this state').choices(KEY_STATES))
    .option(
      '--search <text>',
      'keys with this text in name, id, hint or description, in any case',
      plainSearch,
    )
    .option('--scope <scope>', 'keys with this scope')
    .addOption(
      new Option('--unused <duration>', 'keys not used for this long, such as 90d, or never').argParser(
        parseDuration,
      ),
    )
    .addOption(
      new Option('--sort <field>', 'order, with "-" in front for descending (default: -createdAt)').choices(
        SORTS,
      ),
    )
}

/** @returns the query parameters of the admin API */
export function searchQueryOf({ state, search, scope, sort, unused }: SearchOptions): Record<string, string> {
  const given = Object.entries({
    state,
    q: search,
    scope,
    sort,
    lastUsedBefore: unused === undefined ? undefined : beforeNow(unused),
  })
  return Object.fromEntries(given.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
}

function beforeNow(seconds: number): string {
  return new Date(systemClock.wallMs() - seconds * 1000).toISOString()
}
