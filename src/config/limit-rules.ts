import type { Config } from './schema.ts'
import type { Mistake } from './sources.ts'

/** A limit that is about nothing would be one that its writer believes in and nobody meets. */
export function checkLimits({ limits, routes, scopes }: Config): Mistake[] {
  return limits.policies.flatMap((policy, index) => {
    const { name, route, scope } = policy
    const mistake = (field: string, problem: string) => ({
      spelling: `limits.policies.${name}${field}`,
      problem,
    })
    const mistakes: Mistake[] = []
    if (limits.policies.findIndex(other => other.name === name) < index) {
      mistakes.push(mistake('', 'is the name of two policies'))
    }
    if (route !== undefined && scope !== undefined) {
      mistakes.push(mistake('', 'names a route and a scope: set one of the two, or neither for all routes'))
    }
    if (route !== undefined && !routes.some(other => other.name === route)) {
      mistakes.push(mistake('.route', `is ${route}, which routes does not name`))
    }
    if (scope !== undefined && !Object.hasOwn(scopes, scope)) {
      mistakes.push(mistake('.scope', `is ${scope}, which scopes does not name`))
    } else if (scope !== undefined && !routes.some(other => other.scope === scope)) {
      mistakes.push(mistake('.scope', `is ${scope}, which no route needs`))
    }
    return mistakes
  })
}
