import { fileURLToPath } from 'node:url'
import { ADMIN_CALLS, describeAdminApi } from '../../src/console/api-reference/admin-api.ts'

/** The OpenAPI document of the admin API, of no version: that of a release has its own. */
export const ADMIN_API_DOCUMENT = fileURLToPath(new URL('../../docs/admin-api.json', import.meta.url))

export function currentAdminApiDocument(): string {
  const document = describeAdminApi(ADMIN_CALLS, { version: '0.0.0', publicUrl: undefined })
  return `${JSON.stringify(document, null, 1)}\n`
}
