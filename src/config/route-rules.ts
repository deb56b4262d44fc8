import { parseTemplate, type RouteConfig, WORKSPACE_PARAMETER } from '../domain/route.ts'
import type { Rule } from './rule.ts'
import type { Mistake } from './sources.ts'

export const routeRules: readonly Rule[] = [
  { about: ['routes'], check: ({ routes }) => [...routes.flatMap(checkRoute), ...checkUnique(routes)] },
  {
    about: ['routes', 'scopes'],
    check: ({ routes, scopes }) =>
      routes.flatMap(({ name, scope }) =>
        scope === undefined || Object.hasOwn(scopes, scope)
          ? []
          : [mistake(`routes.${name}.scope`, `is ${scope}, which scopes does not name`)],
      ),
  },
]

function checkRoute(route: RouteConfig): Mistake[] {
  const at = `routes.${route.name}`
  const mistakes: Mistake[] = []
  const parameters = parametersOf(route.path)
  if (new Set(parameters).size !== parameters.length) {
    mistakes.push(mistake(`${at}.path`, 'names one parameter twice'))
  }
  if (route.answeredBy === 'gateway') {
    if (route.upstreamPath !== undefined) {
      mistakes.push(mistake(`${at}.upstreamPath`, 'has no meaning where the gateway itself answers'))
    }
    if (route.shareAnswers !== undefined) {
      mistakes.push(mistake(`${at}.shareAnswers`, 'has no meaning where the gateway itself answers'))
    }
  } else mistakes.push(...checkForwarded(route, parameters))
  for (const [name, rule] of Object.entries(route.query ?? {})) {
    if (rule.type === 'integer' && rule.minimum > rule.maximum) {
      mistakes.push(mistake(`${at}.query.${name}`, 'has a minimum above its maximum'))
    }
  }
  return mistakes
}

/** Whatever reaches the upstream is about the key's own workspace: a path that does not name it cannot be bound to it. */
function checkForwarded(route: RouteConfig, parameters: readonly string[]): Mistake[] {
  const mistakes: Mistake[] = []
  const bound = `{${WORKSPACE_PARAMETER}}`
  if (!parameters.includes(WORKSPACE_PARAMETER)) {
    mistakes.push(
      mistake(`routes.${route.name}.path`, `must have ${bound} in it: keys are bound to a workspace`),
    )
  }
  if (route.upstreamPath === undefined) return mistakes
  const upstream = parametersOf(route.upstreamPath)
  const unknown = upstream.filter(parameter => !parameters.includes(parameter))
  if (!upstream.includes(WORKSPACE_PARAMETER)) {
    mistakes.push(mistake(`routes.${route.name}.upstreamPath`, `must have ${bound} in it`))
  }
  for (const parameter of unknown) {
    mistakes.push(mistake(`routes.${route.name}.upstreamPath`, `has {${parameter}}, which path has not`))
  }
  return mistakes
}

function checkUnique(routes: readonly RouteConfig[]): Mistake[] {
  const forms = duplicatesOf(routes.map(route => route.path.replace(/\{[^{}]*\}/g, '{}')))
  return forms.map(form => mistake('routes', `has two entries that match the same paths: ${form}`))
}

function parametersOf(template: string): string[] {
  return parseTemplate(template).flatMap(segment => ('parameter' in segment ? [segment.parameter] : []))
}

function duplicatesOf(texts: readonly string[]): string[] {
  return [...new Set(texts.filter((text, index) => texts.indexOf(text) !== index))]
}

function mistake(spelling: string, problem: string): Mistake {
  return { spelling, problem }
}
