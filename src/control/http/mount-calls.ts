import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import { ApiError, type ApiErrorCode } from './api-error.ts'
import { type Call, registerCalls } from './calls.ts'

/** Calls under a prefix of their own, for whoever is admitted there. */
export function mountCalls(
  app: FastifyInstance,
  { prefix, admit, unknownPath }: { prefix: string; admit: onRequestHookHandler; unknownPath: ApiErrorCode },
  calls: readonly Call[],
): void {
  const plugin = async (scope: FastifyInstance) => {
    scope.addHook('onRequest', admit)
    // Its own, so that the token is asked for before a caller learns which paths there are.
    scope.setNotFoundHandler(() => {
      throw new ApiError(unknownPath, 'There is nothing at this path')
    })
    registerCalls(scope, calls)
  }
  void app.register(plugin, { prefix })
}
