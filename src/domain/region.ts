/** The only region of an installation whose settings name none. */
export const DEFAULT_REGION = 'default'

const REGION = /^[a-z0-9-]{1,32}$/
/** Pattern of a region's name, in settings and schemas. */
export const REGION_NAME = REGION.source

export function isRegionName(value: unknown): value is string {
  return typeof value === 'string' && REGION.test(value)
}

export const MAX_REGIONS = 16

/** A gateway names its region in it when it asks the key service; one of another maker ignores it. */
export const REGION_HEADER = 'postern-region'
