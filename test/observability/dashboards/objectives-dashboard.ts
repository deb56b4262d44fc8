import { type Dashboard, type Panel, type Row, SELECTED, SELECTED_JOB } from './dashboard.ts'

const REQUESTS = 'postern_http_requests_total'

/** The remaining share of the budget of 30 days: 1 is all of it, below 0 it is overspent. */
const remainingBudget = (slo: string) => `min(1 - job:postern_slo:burnrate30d{${SELECTED_JOB},slo="${slo}"})`

function budgetPanel(title: string, description: string, slo: string): Panel {
  const runbook = '#posternerrorbudgetburnslow'
  const query = { expr: remainingBudget(slo), legend: 'remaining' }
  return {
    title,
    description,
    kind: 'stat',
    unit: 'percentunit',
    width: 6,
    thresholds: [0.25, 0],
    runbook,
    queries: [query],
  }
}

const budgets: Row = {
  title: 'Remaining error budget of 30 days',
  panels: [
    budgetPanel(
      'Gateway: 99.95 % without a 5xx of its own',
      'Rejections while draining do not count. Of several jobs, the one with the least.',
      'gateway',
    ),
    budgetPanel('End to end: 99.9 % without any 5xx', 'Includes the upstream.', 'end_to_end'),
    budgetPanel(
      'Overhead: 99 % below 10 ms',
      'Request duration minus the wait for the upstream.',
      'overhead',
    ),
    budgetPanel(
      'Revocation: 99.9 % in effect within 1 s',
      'Changes that connected gateways received. A disconnected gateway verifies keys at the key service.',
      'revocation',
    ),
  ],
}

/** The panel of one alert: the burn rates of its two windows, and its threshold. */
function burnPanel(
  title: string,
  windows: readonly string[],
  threshold: number,
  slo: string,
  runbook: string,
): Panel {
  return {
    title,
    description: `Burn rates of the error budget. The alert fires while both windows are above ${threshold}.`,
    kind: 'timeseries',
    unit: 'none',
    width: 6,
    runbook: `#${runbook}`,
    queries: [
      ...windows.map(window => ({
        expr: `max by (slo) (job:postern_slo:burnrate${window}{${SELECTED_JOB},slo=~"${slo}"})`,
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
    burnPanel('Fast', ['1h', '5m'], 14.4, BOTH, 'posternerrorbudgetburnfast'),
    burnPanel('High', ['6h', '30m'], 6, BOTH, 'posternerrorbudgetburnhigh'),
    burnPanel('Elevated', ['1d', '2h'], 3, BOTH, 'posternerrorbudgetburnelevated'),
    burnPanel('Slow', ['3d', '6h'], 1, BOTH, 'posternerrorbudgetburnslow'),
    burnPanel('Overhead', ['1h', '5m'], 14.4, 'overhead', 'posternoverheadlatencybudgetburn'),
    {
      title: 'Requests',
      description:
        'Burn-rate alerts need a minimum rate: 0.2 requests a second for the fast ones, 0.1 for the others.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 6,
      queries: ['5m', '1h', '6h', '1d', '3d'].map(window => ({
        expr: `sum(job:postern_http_requests:rate${window}{${SELECTED_JOB}})`,
        legend: window,
      })),
    },
    {
      title: 'Failed responses',
      description: '5xx responses by route, status code and source.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 6,
      queries: [
        {
          expr: `sum by (route, code, source) (rate(${REQUESTS}{${SELECTED},code=~"5.."}[$__rate_interval])) > 0`,
          legend: '{{route}} {{code}} {{source}}',
        },
      ],
    },
    {
      title: 'Alerts',
      description: 'Firing alerts of Postern in these namespaces.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [
        {
          expr: 'count by (alertname, severity) (ALERTS{cluster=~"$cluster",namespace=~"$namespace",alertname=~"Postern.*",alertstate="firing"})',
          legend: '{{alertname}} ({{severity}})',
        },
      ],
    },
  ],
}

export const objectivesDashboard: Dashboard = {
  uid: 'postern-objectives',
  file: 'objectives',
  title: 'Postern / Objectives',
  description: 'Service level objectives, remaining error budgets, and burn rates.',
  byRoute: false,
  rows: [budgets, burning],
}
