// SPDX-License-Identifier: Apache-2.0

// The texts of the console. A test checks that both languages have the same keys, and that
// every key that the page uses is here.
const texts = {
  en: {
    skip: "Skip to the locks", views: "Views", locks: "Locks", graph: "Waits", sessions: "Sessions", store: "Store",
    filter: "Filter by name, owner or reason", onlyWaited: "Only with waiters", sort: "Sort",
    sortContended: "contended first", sortOldest: "oldest first", sortEnding: "ending first", sortName: "by name",
    lock: "Lock", holder: "Holder", heldFor: "Held for", endsIn: "Ends in", waiting: "Waiting", longest: "Longest wait", reason: "Reason",
    counts: "locks {total} · held {held} · contended {contended} · waiting {waiting}", notRenewedCount: "not renewed {n}",
    none: "No lock is held or waited for.", noMatch: "No lock matches the filter.", reading: "Reading the store …",
    kept: "reserved, not held", waited: "only waited for", free: "free", held: "held", notRenewed: "not renewed",
    notRenewedWhy: "The holder has not renewed for half of its TTL. It may be dead, stopped or cut off.",
    more: "+{n}", live: "live", paused: "paused", pause: "Pause: keep what is shown", goOn: "Continue: follow the store again", away: "disconnected", asOf: "as of {time}",
    unreachable: "The store does not answer; this is from {time}: {error}", serverAway: "The server does not answer. Trying again …",
    close: "Close", token: "Token", session: "Session", mode: "Mode", trace: "Trace", exclusive: "exclusive", shared: "shared", weight: "weight {n}",
    lingers: "Lingers", lingersWhy: "{time} after an unlock, free on request", holders: "Holders", queue: "Queue", queueEmpty: "No client waits.",
    andMore: "and {n} more", waitingFor: "waiting {time}", lastHour: "Holders in the last hour",
    historyNote: "Seen by polls of this server; what came and went in between is missing.", historyList: "As a list ({n})",
    from: "From", until: "Until", now: "now", copy: "Copy", copied: "Copied",
    grace: "The store was reset; no new locks for {time} (grace period).",
    graphTitle: "Who waits for whom", noWaits: "No client waits for a lock.", deadlock: "Deadlock", deadlocks: "{n} deadlocks",
    cycleStep: "{holder} holds {lock} and waits for {next}", cycleHint: "These processes wait for each other. A program with several threads may still go on: check before you break a lock.",
    graphLabel: "Picture: {locks} locks and {owners} processes", leftOut: "{n} more locks are not drawn.", holds: "holds", waitsFor: "waits for",
    legendLock: "lock", legendOwner: "process", legendCycle: "part of a deadlock",
    sessionsTitle: "Processes that hold locks or wait for them", filterSessions: "Filter by owner or session",
    owner: "Owner", heldCount: "Holds", waitsCount: "Waits for", oldest: "Oldest", noSessions: "No process holds a lock or waits for one.", shownOf: "{shown} of {total}",
    storeTitle: "The store", answers: "answers", answersNot: "does not answer", poll: "Poll", pollText: "every {every}, took {took}", viewers: "Viewers",
    program: "Program", guarantees: "Guarantees", promises: "Guarantees in words", findings: "Findings", noFindings: "Nothing to worry about.", change: "Change: {fix}", checked: "checked {time}",
    fencing: "Fencing tokens", survives: "Grants survive a crash", fair: "First come, first served", push: "Handoff by notification",
    yes: "yes", no: "no", strict: "strict", "best effort": "best effort", noneFencing: "none", ttl: "TTL", notice: "Notice before the end",
    danger: "danger", warning: "warning", note: "note", noListing: "This store cannot list its locks. Enter the exact name of one.", show: "Show",
    themeAuto: "Theme: system", themeLight: "Theme: light", themeDark: "Theme: dark", language: "中文",
    signIn: "Sign in", signInWhy: "This server has users. Enter the token that fencelock serve token printed. It is kept until this tab is closed.",
    signOut: "Sign out {name}", wrongToken: "The server does not know this token.", cancel: "Cancel",
    breakLock: "Break …", breakTitle: "Break {lock}?", breakWhat: "The lock is taken away from {owner}, who has held it for {time}, and goes to the next waiter at once.",
    breakWarn: "The old holder is notified at its next renewal, which is later: until then both believe that they hold it. Make sure that it is gone, or that what the lock protects checks tokens.",
    breakReason: "Reason, for the audit log", breakConfirm: "To confirm, type the name of the lock", breakDo: "Break the lock",
    broken: "{lock} was taken from {owner}.", fence: "Raise the fence of what the lock protects to this token:", breakFailed: "Nothing was done: {error}", done: "Done",
    keys: "Keys: / filter, ↑ ↓ choose, Enter shows, Esc closes",
  },
  zh: {
    skip: "跳到锁列表", views: "视图", locks: "锁", graph: "等待关系", sessions: "会话", store: "存储",
    filter: "按锁名、持有者或原因筛选", onlyWaited: "只看有人排队的", sort: "排序",
    sortContended: "争用最多的在前", sortOldest: "持有最久的在前", sortEnding: "最快到期的在前", sortName: "按名称",
    lock: "锁", holder: "持有者", heldFor: "已持有", endsIn: "距到期", waiting: "排队", longest: "最长等待", reason: "原因",
    counts: "共 {total} 把锁，{held} 把被持有，{contended} 把有争用，{waiting} 个在排队", notRenewedCount: "{n} 把未续租",
    none: "没有锁被持有，也没有人排队。", noMatch: "没有符合筛选条件的锁。", reading: "正在读取存储……",
    kept: "已保留，无人持有", waited: "只有人排队", free: "空闲", held: "被持有", notRenewed: "未续租",
    notRenewedWhy: "持有者已有半个 TTL 没有续租，可能已退出、被挂起，或与存储断开。",
    more: "等 {n} 个", live: "实时", paused: "已暂停", pause: "暂停：保留当前画面", goOn: "继续：重新跟随存储", away: "连接断开", asOf: "截至 {time}",
    unreachable: "存储没有响应；以下是 {time} 的数据：{error}", serverAway: "服务器没有响应，正在重试……",
    close: "关闭", token: "围栏令牌", session: "会话", mode: "模式", trace: "Trace", exclusive: "独占", shared: "共享", weight: "权重 {n}",
    lingers: "逗留", lingersWhy: "解锁后保留 {time}，有人排队即让出", holders: "持有者", queue: "排队", queueEmpty: "没有人排队。",
    andMore: "另有 {n} 个", waitingFor: "已等待 {time}", lastHour: "最近一小时的持有者",
    historyNote: "由本服务器轮询所见；两次轮询之间来去的持有者不在其中。", historyList: "以列表显示（{n} 次）",
    from: "开始", until: "结束", now: "现在", copy: "复制", copied: "已复制",
    grace: "存储发生过数据丢失，{time}内不授予新锁（宽限期）。",
    graphTitle: "谁在等谁", noWaits: "没有人在等锁。", deadlock: "死锁", deadlocks: "{n} 个死锁",
    cycleStep: "{holder} 持有 {lock}，在等 {next}", cycleHint: "这些进程互相等待。多线程程序可能仍在推进：强制释放前请先确认。",
    graphLabel: "图：{locks} 把锁，{owners} 个进程", leftOut: "还有 {n} 把锁没有画出。", holds: "持有", waitsFor: "在等",
    legendLock: "锁", legendOwner: "进程", legendCycle: "死锁的一部分",
    sessionsTitle: "持有锁或在排队的进程", filterSessions: "按持有者或会话筛选",
    owner: "持有者", heldCount: "持有", waitsCount: "在等", oldest: "最久", noSessions: "没有进程持有锁或在排队。", shownOf: "显示 {shown} / {total}",
    storeTitle: "存储", answers: "正常响应", answersNot: "没有响应", poll: "轮询", pollText: "每 {every} 一次，耗时 {took}", viewers: "在看的人",
    program: "程序", guarantees: "保证", promises: "保证的文字说明（英文）", findings: "检查结果", noFindings: "没有需要担心的。", change: "修改：{fix}", checked: "检查于 {time}",
    fencing: "围栏令牌", survives: "崩溃后锁仍在", fair: "先到先得", push: "交接时主动通知",
    yes: "是", no: "否", strict: "严格", "best effort": "尽力", noneFencing: "没有", ttl: "TTL", notice: "到期前多久通知",
    danger: "危险", warning: "警告", note: "提示", noListing: "这种存储不能列出锁。请输入锁的完整名称。", show: "查看",
    themeAuto: "主题：跟随系统", themeLight: "主题：浅色", themeDark: "主题：深色", language: "English",
    signIn: "登录", signInWhy: "这台服务器有用户。请输入 fencelock serve token 打印的令牌，它只保留到这个标签页关闭。",
    signOut: "退出 {name}", wrongToken: "服务器不认识这个令牌。", cancel: "取消",
    breakLock: "强制释放……", breakTitle: "强制释放 {lock}？", breakWhat: "锁将从 {owner} 手中收回（已持有 {time}），并立即交给下一个排队者。",
    breakWarn: "原持有者要到下次续租才会得到通知，在那之前双方都认为自己持有锁。请确认它已经停止，或者锁所保护的资源会校验令牌。",
    breakReason: "原因，写入审计日志", breakConfirm: "请输入锁的名称以确认", breakDo: "强制释放",
    broken: "已从 {owner} 手中收回 {lock}。", fence: "请把锁所保护的资源的围栏提高到这个令牌：", breakFailed: "什么都没有做：{error}", done: "完成",
    keys: "按键：/ 筛选，↑ ↓ 选择，Enter 查看，Esc 关闭",
  },
};

const languageKey = "fencelock-language";
let language = localStorage.getItem(languageKey) || (navigator.language.startsWith("zh") ? "zh" : "en");

// t is a text with its variables filled in.
export function t(key, vars) {
  const text = texts[language][key] ?? texts.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(vars?.[name] ?? ""));
}

// translate writes the texts of an element that has them as attributes.
export function translate(root) {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const el of root.querySelectorAll("[data-t]")) el.textContent = t(el.dataset.t);
  for (const el of root.querySelectorAll("[data-t-placeholder]")) el.placeholder = t(el.dataset.tPlaceholder);
  for (const el of root.querySelectorAll("[data-t-label]")) el.setAttribute("aria-label", t(el.dataset.tLabel));
}

export function switchLanguage() {
  language = language === "zh" ? "en" : "zh";
  localStorage.setItem(languageKey, language);
}

// number writes a count with separators.
export const number = (n) => n.toLocaleString(language === "zh" ? "zh-CN" : "en-GB");

export const clock = (when) => new Date(when).toLocaleTimeString(language === "zh" ? "zh-CN" : "en-GB");
