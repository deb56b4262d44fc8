import { denialRow } from '../../domain/denial.ts'
import { errorResponseOf, type PresentDenial } from '../denial-response.ts'
import type { ProxyKind } from './read-original.ts'

/** How a denial is answered to a kind of proxy: all but nginx pass any response on to their client. */
export function presentDenialTo(proxy: ProxyKind): PresentDenial {
  return proxy === 'nginx' ? presentToNginx : errorResponseOf
}

/**
 * nginx `auth_request` turns every status but 2xx, 401 and 403 into 500, and drops the body. Headers carry both, so that
 * its configuration can restore them.
 */
const presentToNginx: PresentDenial = denial => {
  const { status, headers, body } = errorResponseOf(denial)
  return {
    status: status === 401 ? 401 : 403,
    headers: {
      ...headers,
      'x-postern-status': String(status),
      'x-postern-code': denialRow(denial.reason).code,
      'x-postern-body': asciiOf(body),
    },
    body: '',
  }
}

/** The same JSON, as a header may hold it. */
function asciiOf(json: string): string {
  return json.replace(/[^\x20-\x7e]/g, character => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}
