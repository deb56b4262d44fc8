import { type Board, CHOSEN, CHOSEN_JOB, type Panel, type Row } from './board.ts'

const increase = (metric: string, matchers: string) => `sum(increase(${metric}{${matchers}}[30d]))`
const REQUESTS = 'postern_http_requests_total'

/** What is left of the budget of 30 days: 1 is all, below 0 is overspent. */
function budgetLeft(failed: string, budget: number): string {
  const drained = increase('postern_http_rejected_total', `${CHOSEN},reason="draining"`)
  const failures = `clamp_min(${increase(REQUESTS, `${CHOSEN},${failed}`)} - ${drained}, 0)`
  return `1 - ${failures} / ${increase(REQUESTS, CHOSEN)} / ${budget}`
}

function left(title: string, description: string, expr: string): Panel {
  const runbook = '#posternerrorbudgetburnslow'
  const query = { expr, legend: 'left' }
  return {
    title,
    description,
    kind: 'stat',
    unit: 'percentunit',
    width: 6,
    limits: [0.25, 0],
    runbook,
    queries: [query],
  }
}

const LAG = 'postern_key_invalidation_lag_seconds'
const OVERHEAD = 'postern_http_overhead_duration_seconds'

const budgets: Row = {
  title: 'Budget left of 30 days',
  panels: [
    left(
      'Gateway: 99.95 % without a 5xx of its own',
      'Refusals while draining do not count.',
      budgetLeft('code=~"5..",source="gateway"', 0.0005),
    ),
    left('End to end: 99.9 % without any 5xx', 'Includes the upstream.', budgetLeft('code=~"5.."', 0.001)),
    left(
      'Overhead: 99 % below 10 ms',
      'Duration less the wait for the upstream.',
      `1 - (1 - ${increase(`${OVERHEAD}_bucket`, `${CHOSEN},le="0.01"`)} / ${increase(`${OVERHEAD}_count`, CHOSEN)}) / 0.01`,
    ),
    left(
      'Revocation: 99.9 % in effect within 1 s',
      'Of changes that connected gateways received; a disconnected one verifies keys at the key service instead.',
      `1 - (1 - ${increase(`${LAG}_bucket`, `${CHOSEN},le="1"`)} / ${increase(`${LAG}_count`, CHOSEN)}) / 0.001`,
    ),
  ],
}

/** One alert: its two windows, and the line that both must cross. */
function burn(
  title: string,
  windows: readonly string[],
  threshold: number,
  slo: string,
  runbook: string,
): Panel {
  return {
    title,
    description: `How many times as fast as it may the budget is spent. The alert fires where both are above ${threshold}.`,
    kind: 'timeseries',
    unit: 'none',
    width: 6,
    runbook: `#${runbook}`,
    queries: [
      ...windows.map(window => ({
        expr: `max by (slo) (job:postern_slo:burnrate${window}{${CHOSEN_JOB},slo=~"${slo}"})`,
        legend: `{{slo}} ${window}`,
      })),
      { expr: `vector(${threshold})`, legend: 'alert' },
    ],
  }
}

const BOTH = 'gateway|end_to_end'
const burning: Row = {
  title: 'Burn rates',
  panels: [
    burn('Fast', ['1h', '5m'], 14.4, BOTH, 'posternerrorbudgetburnfast'),
    burn('High', ['6h', '30m'], 6, BOTH, 'posternerrorbudgetburnhigh'),
    burn('Elevated', ['1d', '2h'], 3, BOTH, 'posternerrorbudgetburnelevated'),
    burn('Slow', ['3d', '6h'], 1, BOTH, 'posternerrorbudgetburnslow'),
    burn('Overhead', ['1h', '5m'], 14.4, 'overhead', 'posternoverheadlatencybudgetburn'),
    {
      title: 'Requests',
      description: 'Below 0.2 requests a second no burn rate raises an alert.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 6,
      queries: ['5m', '1h', '6h', '1d', '3d'].map(window => ({
        expr: `sum(job:postern_http_requests:rate${window}{${CHOSEN_JOB}})`,
        legend: window,
      })),
    },
    {
      title: 'Answers that fail',
      description: 'By route, status and who made it.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 6,
      queries: [
        {
          expr: `sum by (route, code, source) (rate(${REQUESTS}{${CHOSEN},code=~"5.."}[$__rate_interval])) > 0`,
          legend: '{{route}} {{code}} {{source}}',
        },
      ],
    },
    {
      title: 'Alerts',
      description: 'Those of Postern that fire.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [
        {
          expr: 'count by (alertname, severity) (ALERTS{alertname=~"Postern.*",alertstate="firing"})',
          legend: '{{alertname}} ({{severity}})',
        },
      ],
    },
  ],
}

export const objectivesBoard: Board = {
  uid: 'postern-objectives',
  file: 'objectives',
  title: 'Postern / Objectives',
  description: 'What was promised, how much of it is left, and how fast it is being spent.',
  byRoute: false,
  rows: [budgets, burning],
}
