import { Type } from 'typebox'
import { plainPasted } from '../../domain/pasted-text.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import type { Call } from '../platform/http/calls.ts'
import { callerAddressOf } from '../platform/http/request-context.ts'
import type { HandleTokens } from './handle-tokens.ts'

const BODY_LIMIT_BYTES = 16 * 1024
const ACTOR = { actor: 'leak-report', name: 'Leak report' }

const reportBody = Type.Object(
  {
    token: Type.String({ minLength: 1, maxLength: 4096, description: 'the key that was found' }),
    url: Type.Optional(Type.String({ maxLength: 4096, description: 'the address at which it was found' })),
  },
  { additionalProperties: false },
)

/** A report of any client that has found a key: who holds a key may end it. */
export function reportCall({
  handleTokens,
  logger,
}: {
  readonly handleTokens: HandleTokens
  readonly logger: ControlLogger
}): Call {
  return {
    method: 'POST',
    url: '',
    operation: 'leak_report',
    schema: { body: reportBody },
    bodyLimitBytes: BODY_LIMIT_BYTES,
    handle: async request => {
      // The route's schema has validated the body.
      const { token, url } = request.body as { readonly token: string; readonly url?: string }
      const from = { address: callerAddressOf(request), requestId: request.id }
      const [outcome] = await handleTokens('public', [{ token: plainPasted(token), url }], {
        ...ACTOR,
        ...from,
      })
      if (outcome === 'unknown') return { label: 'false_positive' }
      logger.info({ requestId: request.id, outcome }, 'leak report of a key')
      return { label: 'true_positive' }
    },
  }
}
