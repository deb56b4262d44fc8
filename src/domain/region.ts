/** The only region of an installation whose settings name none. */
export const DEFAULT_REGION = 'default'

/** Of a region, in settings. */
export const REGION_NAME = '^[a-z0-9-]{1,32}$'
export const MAX_REGIONS = 16
