import { parseTemplate, type RouteConfig, WORKSPACE_PARAMETER } from '../domain/route/route.ts'
import type { ConfigProblem } from './config-error.ts'
import type { Config } from './schema/schema.ts'

const NO_EFFECT = 'has no effect on a route that the gateway answers itself'

export function findRouteProblems({ routes }: Config): ConfigProblem[] {
  const forms = duplicatesIn(routes.map(route => route.path.replace(/\{[^{}]*\}/g, '{}')))
  return [
    ...routes.flatMap(findProblemsIn),
    ...forms.map(form => ({
      source: 'routes',
      problem: `has two entries that match the same paths: ${form}`,
    })),
  ]
}

export function findUnknownScopes({ routes, scopes }: Config): ConfigProblem[] {
  return routes
    .filter(({ scope }) => scope !== undefined && !Object.hasOwn(scopes, scope))
    .map(({ name, scope }) => ({
      source: `routes.${name}.scope`,
      problem: `is ${scope}, which is not in scopes: add it there, or remove the route (routes.${name}: null)`,
    }))
}

function findProblemsIn(route: Config['routes'][number]): ConfigProblem[] {
  const at = `routes.${route.name}`
  const problems: ConfigProblem[] = []
  const parameters = listParameters(route.path)
  if (new Set(parameters).size !== parameters.length) {
    problems.push({ source: `${at}.path`, problem: 'names one parameter twice' })
  }
  if (route.answeredBy !== 'gateway') problems.push(...findForwardingProblems(route, parameters))
  else {
    for (const field of ['upstreamPath', 'coalesce', 'responseSchema'] as const) {
      if (route[field] !== undefined) problems.push({ source: `${at}.${field}`, problem: NO_EFFECT })
    }
  }
  for (const [name, rule] of Object.entries(route.query ?? {})) {
    if (rule.type === 'integer' && rule.minimum > rule.maximum) {
      problems.push({ source: `${at}.query.${name}`, problem: 'has a minimum above its maximum' })
    }
  }
  return problems
}

/** A key is bound to one workspace: a path that does not name the workspace could not be checked against it. */
function findForwardingProblems(route: RouteConfig, parameters: readonly string[]): ConfigProblem[] {
  const at = `routes.${route.name}`
  const problems: ConfigProblem[] = []
  const workspace = `{${WORKSPACE_PARAMETER}}`
  if (!parameters.includes(WORKSPACE_PARAMETER)) {
    const problem = `must have ${workspace} in it: keys are bound to a workspace`
    problems.push({ source: `${at}.path`, problem })
  }
  if (route.upstreamPath === undefined) return problems
  const source = `${at}.upstreamPath`
  const upstreamParameters = listParameters(route.upstreamPath)
  if (!upstreamParameters.includes(WORKSPACE_PARAMETER)) {
    problems.push({ source, problem: `must have ${workspace} in it` })
  }
  const unknown = upstreamParameters.filter(parameter => !parameters.includes(parameter))
  for (const parameter of unknown) {
    problems.push({ source, problem: `has {${parameter}}, which is not in path` })
  }
  return problems
}

/** In check mode the proxy forwards the path that the client sent. */
export function findRewrittenPaths({ gateway: { check }, routes }: Config): ConfigProblem[] {
  if (check.port === undefined) return []
  return routes
    .filter(({ path, upstreamPath }) => upstreamPath !== undefined && upstreamPath !== path)
    .map(({ name }) => ({
      source: `routes.${name}.upstreamPath`,
      problem:
        'is not possible with gateway.check.port: in check mode the proxy forwards the path of the client. Remove it',
    }))
}

export function findLimitProblems(config: Config): ConfigProblem[] {
  const { policies, plans } = config.limits
  return [
    ...findPolicyProblems('limits.policies', policies, config),
    ...Object.entries(plans).flatMap(([plan, { policies }]) =>
      findPolicyProblems(`limits.plans.${plan}.policies`, policies, config),
    ),
  ]
}

/** A limit on a route or scope that no request has would never apply. */
function findPolicyProblems(
  path: string,
  policies: Config['limits']['policies'],
  { routes, scopes }: Config,
): ConfigProblem[] {
  return policies.flatMap(({ name, route, scope, windowSeconds, window }, index) => {
    const source = `${path}.${name}`
    const problems: ConfigProblem[] = []
    if (policies.findIndex(other => other.name === name) < index) {
      problems.push({ source, problem: 'is the name of two policies' })
    }
    if ((windowSeconds === undefined) === (window === undefined)) {
      problems.push({ source, problem: 'must have either windowSeconds or window: month' })
    }
    if (route !== undefined && scope !== undefined) {
      const problem = 'names a route and a scope: set one of the two, or neither for all routes'
      problems.push({ source, problem })
    }
    if (route !== undefined && !routes.some(other => other.name === route)) {
      problems.push({ source: `${source}.route`, problem: `is ${route}, which is not in routes` })
    }
    if (scope !== undefined && !Object.hasOwn(scopes, scope)) {
      problems.push({ source: `${source}.scope`, problem: `is ${scope}, which is not in scopes` })
    } else if (scope !== undefined && !routes.some(other => other.scope === scope)) {
      problems.push({ source: `${source}.scope`, problem: `is ${scope}, which no route requires` })
    }
    return problems
  })
}

function listParameters(template: string): string[] {
  return parseTemplate(template).flatMap(segment => ('parameter' in segment ? [segment.parameter] : []))
}

function duplicatesIn(texts: readonly string[]): string[] {
  return [...new Set(texts.filter((text, index) => texts.indexOf(text) !== index))]
}
