/** Windows of days and minutes become seconds in a run of a minute. */
const LONG = '[60s]'
const SHORT = '[5s]'

/** A query with shortened windows and the dashboard's variables filled in. */
export function shortened(expr: string): string {
  return expr
    .replaceAll('$__rate_interval', '5s')
    .replaceAll('$__range', '60s')
    .replace(/"\$(cluster|namespace|job|pod|route)"/g, '".*"')
    .replace(/\[\d+d\]/g, LONG)
    .replace(/\[\d+[mh]\]/g, SHORT)
    .replace(/offset \d+m/g, 'offset 5s')
}

/** A rule file with windows and durations of seconds. */
export function shortenedRules(text: string): string {
  return shortened(text)
    .replace(/^( +(?:for|keep_firing_for):) .*$/gm, '$1 1s')
    .replace(/^( +interval:) .*$/gm, '$1 1s')
}
