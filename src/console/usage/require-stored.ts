import { ApiError } from '../platform/http/api-error.ts'
import type { Usage } from './read-usage.ts'

/** @throws ApiError if the settings of the console keep no counts */
export function requireCounts({ stores }: Pick<Usage, 'stores'>): void {
  if (!stores.counts) throw notStored('Counts and refusals', 'usage.enabled')
}

/** @throws ApiError if the settings of the console keep no refusals */
export function requireRefusals(usage: Pick<Usage, 'stores'>): void {
  requireCounts(usage)
  if (!usage.stores.refusals) throw notStored('Refusals', 'refusals.enabled')
}

function notStored(what: string, setting: string): ApiError {
  return new ApiError('usage_disabled', `${what} are not kept: the setting ${setting} is false`)
}
