//! What a key, a tenant or a pool may use, and how large one request may be.

use inferscope_shared::strict_yaml::{Map, Node, Problems};

/// Limits of one key, tenant or pool. What is not set is not limited.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitsConfig {
    /// Requests per second, in the long run.
    pub requests_per_s: Option<f64>,
    /// Requests at once; one second's worth, at least 1, unless set.
    pub burst: Option<u64>,
    /// Tokens per minute, prompt and answer together, a minute's worth at once.
    pub tokens_per_min: Option<u64>,
    /// Requests at a time.
    pub concurrency: Option<u64>,
    /// Tokens per day (UTC).
    pub daily_tokens: Option<u64>,
    /// Tokens per month (UTC).
    pub monthly_tokens: Option<u64>,
    /// Longest prompt, by the estimate.
    pub max_prompt_tokens: Option<u64>,
    /// Longest answer per choice.
    pub max_output_tokens: Option<OutputCap>,
    /// Most choices per request.
    pub max_n: Option<u64>,
    /// False: decided and counted, never refused. How limits get rolled out.
    pub enforce: bool,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            requests_per_s: None,
            burst: None,
            tokens_per_min: None,
            concurrency: None,
            daily_tokens: None,
            monthly_tokens: None,
            max_prompt_tokens: None,
            max_output_tokens: None,
            max_n: None,
            enforce: true,
        }
    }
}

impl LimitsConfig {
    /// Whether the number of tokens that a request may cost matters.
    #[must_use]
    pub const fn counts_tokens(&self) -> bool {
        self.tokens_per_min.is_some()
            || self.daily_tokens.is_some()
            || self.monthly_tokens.is_some()
            || self.max_output_tokens.is_some()
            || self.max_n.is_some()
    }

    /// Whether it can refuse a request for what its body says.
    #[must_use]
    pub const fn needs_body(&self) -> bool {
        self.enforce && (self.counts_tokens() || self.max_prompt_tokens.is_some())
    }
}

/// The longest answer, and what becomes of a request for a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputCap {
    /// Tokens per choice.
    pub tokens: u64,
    /// What is done about more, or about a request that does not say.
    pub over: Over,
}

/// What becomes of a request for too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The number in the request is replaced; one that is missing is put in.
    Clamp,
    /// The request is refused.
    Refuse,
}

pub(super) fn limits(node: &Node, problems: &mut Problems) -> Option<LimitsConfig> {
    let mut map = node.map(problems)?;
    let enforce = map.bool("enforce", problems).unwrap_or(true);
    let rate_node = map.get("requests_per_s");
    let requests_per_s = rate_node.and_then(|node| {
        let rate = node.f64(problems)?;
        if rate.is_finite() && (1e-6..=1e6).contains(&rate) {
            return Some(rate);
        }
        node.complain(
            problems,
            "expected requests per second from 0.000001 to 1000000",
        );
        None
    });
    let burst_node = map.get("burst");
    let burst = burst_node.and_then(|node| positive(node, problems));
    if let (Some(node), None) = (burst_node, rate_node) {
        node.complain(
            problems,
            "has no effect without `requests_per_s`: set that too, or remove it",
        );
    }
    let limits = LimitsConfig {
        requests_per_s,
        burst,
        tokens_per_min: map.read("tokens_per_min", problems, positive),
        concurrency: map.read("concurrency", problems, positive),
        max_prompt_tokens: map.read("max_prompt_tokens", problems, positive),
        max_output_tokens: map.read("max_output_tokens", problems, output_cap),
        max_n: map.read("max_n", problems, positive),
        enforce,
        ..budget(&mut map, problems)
    };
    map.finish(problems);
    Some(limits)
}

fn budget(map: &mut Map<'_>, problems: &mut Problems) -> LimitsConfig {
    let read = map.read("budget", problems, |node, problems| {
        let mut map = node.map(problems)?;
        let budget = LimitsConfig {
            daily_tokens: map.read("daily", problems, positive),
            monthly_tokens: map.read("monthly", problems, positive),
            ..LimitsConfig::default()
        };
        map.finish(problems);
        Some(budget)
    });
    read.unwrap_or_default()
}

fn output_cap(node: &Node, problems: &mut Problems) -> Option<OutputCap> {
    let mut map = node.map(problems)?;
    let tokens = map
        .need("tokens", "4096", problems)
        .and_then(|node| positive(node, problems));
    let words = [("clamp", Over::Clamp), ("refuse", Over::Refuse)];
    let over = map.one_of("over", problems, &words).unwrap_or(Over::Clamp);
    map.finish(problems);
    tokens.map(|tokens| OutputCap { tokens, over })
}

/// A whole number from 1 on. Zero would mean "nothing" to one reader and "no limit" to another.
pub(super) fn positive(node: &Node, problems: &mut Problems) -> Option<u64> {
    let number = node.u64(problems)?;
    if number == 0 {
        node.complain(
            problems,
            "0 is not taken: write a number from 1 on, or leave it out for no limit",
        );
        return None;
    }
    Some(number)
}
